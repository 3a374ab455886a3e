"""Weights: what the heads' weights say without any text, written to two tables.

weights.parquet has one row a head: OV copying, previous-token structure in QK, and for queries,
keys and values the earlier head that it reads most. composition.parquet has every pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.circuits import Circuits, circuits, embeddings, unembedding
from rolecall.analyses.composition import KINDS, composition, factors, random_composition
from rolecall.analyses.copying import diagonal_rank, eigen_positivity
from rolecall.analyses.manifest import Manifest, check_folder
from rolecall.analyses.models import Model
from rolecall.analyses.positional_qk import previous_token_share
from rolecall.analyses.run_folder import folder_for
from rolecall.analyses.tables import write_table

Progress = Callable[[str, int, int], None]
"""Called with what is worked out, the layers done and the layers in all."""


@dataclass(frozen=True)
class Weights:
    """What the weights say.

    Attributes:
        folder: The run folder.
        table: One row a head (design §6).
        composition: One row a pair of heads and kind: score, and its excess over random matrices.
        baseline: What random matrices of these shapes score.
    """

    folder: Path
    table: pd.DataFrame
    composition: pd.DataFrame
    baseline: float


@torch.no_grad()
def weights(
    model: Model, *, seed: int = 0, out: Path | None = None, progress: Progress | None = None
) -> Weights:
    """Copying, previous-token structure and composition of every head, by linear algebra alone.

    Args:
        model: From `load_model`; biases are left out and norms count without their scale.
        seed: Of the random matrices that composition is held against.
        out: The run folder; if None, one that is gone when Python ends.
        progress: Told how far the work is.

    Raises:
        ValueError: The folder holds a run of another model.
    """
    started = time.perf_counter()
    folder = folder_for(out)
    manifest = Manifest.of(model, weights_seed=seed)
    check_folder(folder, model)
    baseline = random_composition(model.d_model, model.d_head, seed=seed)
    words = _Words.of(model)
    rows, pairs, sent = [], [], []
    for number, layer in enumerate(model.pattern_layers):
        made = circuits(model, layer)
        rows.append(_head_rows(model, layer, made, words))
        parts = factors(made)
        if sent:
            earlier = torch.cat(sent)
            names = [
                (at, head) for at in model.pattern_layers[:number] for head in range(model.n_heads)
            ]
            pairs += [
                _pair_rows(kind, names, layer, composition(earlier, parts.reads[kind]))
                for kind in KINDS
            ]
        sent.append(parts.out)
        if progress is not None:
            progress("weights", number + 1, len(model.pattern_layers))
    every = _joined(pairs, baseline)
    table = _with_partners(pd.concat(rows, ignore_index=True), every)
    write_table(folder, "composition", every)
    write_table(folder, "weights", table)
    manifest.timed("weights", started)
    manifest.write(folder)
    return Weights(folder, table, every, baseline)


@dataclass(frozen=True)
class _Words:
    """The vocabulary's two ends, and what is worked out of them once."""

    embedding: Float[Tensor, "d_vocab d_model"]
    unembedding: Float[Tensor, "d_model d_vocab"] | None
    cyclic: Float[Tensor, "d_model d_model"] | None

    @classmethod
    def of(cls, model: Model) -> _Words:
        embedding, unembed = embeddings(model), unembedding(model)
        return cls(embedding, unembed, None if unembed is None else unembed @ embedding)


def _head_rows(model: Model, layer: int, made: Circuits, words: _Words) -> pd.DataFrame:
    columns: dict[str, Tensor | None] = {
        "ov_copying": None,
        "ov_copying_rank": None,
        "qk_previous_token": previous_token_share(model, layer, made, words.embedding.mean(dim=0)),
    }
    if words.unembedding is not None and words.cyclic is not None:
        columns["ov_copying"] = eigen_positivity(made, words.cyclic)
        columns["ov_copying_rank"] = diagonal_rank(made, words.embedding, words.unembedding)
    heads = range(model.n_heads)
    rows = pd.DataFrame(
        {"layer": layer, "head": heads, "kv_group": [model.kv_group(h) for h in heads]}
    )
    numbers = {
        n: float("nan") if c is None else c.double().cpu().numpy() for n, c in columns.items()
    }
    return rows.assign(**numbers)


def _pair_rows(
    kind: str, senders: list[tuple[int, int]], layer: int, score: Float[Tensor, "sender head"]
) -> pd.DataFrame:
    n_heads = score.shape[1]
    return pd.DataFrame(
        {
            "kind": kind,
            "from_layer": [at for at, _ in senders for _ in range(n_heads)],
            "from_head": [head for _, head in senders for _ in range(n_heads)],
            "layer": layer,
            "head": list(range(n_heads)) * len(senders),
            "score": score.double().flatten().cpu().numpy(),
        }
    )


def _joined(pairs: list[pd.DataFrame], baseline: float) -> pd.DataFrame:
    names = ["kind", "from_layer", "from_head", "layer", "head", "score"]
    rows = pd.concat(pairs, ignore_index=True) if pairs else pd.DataFrame({n: [] for n in names})
    return rows.assign(excess=rows["score"].astype(float) - baseline)


def _with_partners(heads: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """The heads, each with the earlier head that its queries, keys and values read most."""
    order = ["kind", "layer", "head", "excess", "from_layer", "from_head"]
    ascending = [True, True, True, False, True, True]
    best = pairs.sort_values(order, ascending=ascending).drop_duplicates(["kind", "layer", "head"])
    for kind in KINDS:
        names = {"excess": f"{kind}_composition", "from_layer": f"{kind}_from_layer"}
        names["from_head"] = f"{kind}_from_head"
        own = best[best["kind"] == kind].rename(columns=names)
        heads = heads.merge(
            own[["layer", "head", *names.values()]], on=["layer", "head"], how="left"
        )
        for name in (f"{kind}_from_layer", f"{kind}_from_head"):
            heads[name] = heads[name].astype("Int64")
    return heads
