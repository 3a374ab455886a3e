"""Examples kept with a run, to see what a head does: where it looks and what it writes.

One JSON file a role. For the role's leading heads, attention on a typical example (the one with the
median score of the best head); for the best head also on the example it does worst on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.evidence import Evidence, Head, open_evidence
from rolecall.analyses.export import crafted_examples
from rolecall.analyses.heads import require_head
from rolecall.analyses.hooks import read_patterns, read_z
from rolecall.analyses.manifest import digest
from rolecall.analyses.manifest_file import read_manifest
from rolecall.analyses.models import Model
from rolecall.analyses.tables import write_json
from rolecall.analyses.top_tokens import token_texts, top_tokens
from rolecall.probes.base import Example, Link

HEADS = 3
LONGEST = 64
"""Longer examples keep only the rows of their link's query."""


@dataclass(frozen=True)
class Sample:
    """One example on which some heads are to be seen; only its first link is shown."""

    role: str
    caption: str
    example: Example
    heads: tuple[Head, ...]


def store_samples(
    model: Model, scores: pd.DataFrame, folder: Path, *, n: int, seed: int
) -> list[Path]:
    """The files written: `attention/<role>.json` for each role of the scores table.

    `n` and `seed` are those of the scan, so that its examples come again.
    """
    chosen = [
        sample
        for role, rows in scores.groupby("role")
        for sample in choose(model, rows, folder, n=n, seed=seed)
    ]
    written = []
    pairs = zip(chosen, read_samples(model, chosen), strict=True)
    for role, parts in groupby(pairs, key=lambda pair: pair[0].role):
        path = folder / "attention" / f"{role}.json"
        examples = [entry for _, entries in parts for entry in entries]
        write_json(path, {"role": role, "examples": examples})
        written.append(path)
    return written


def look_at(
    model: Model, rows: pd.DataFrame, folder: Path, *, n: int, seed: int
) -> list[dict[str, Any]]:
    """What the heads of these rows of one role do on its typical and its worst example."""
    chosen = choose(model, rows, folder, n=n, seed=seed)
    found = read_samples(model, chosen)
    return [
        {**e, "role": s.role} for s, entries in zip(chosen, found, strict=True) for e in entries
    ]


def look_at_text(model: Model, text: str, heads: Sequence[Head]) -> list[dict[str, Any]]:
    """Where heads look from the last word of a text, and what they write there.

    Entries are as in `attention/<role>.json`, without right key and rivals.
    `rolecall.reports.attention_view` draws them.

    Raises:
        ValueError: The text has no words, is too long, or the model has no such head.
    """
    encoded = model.aligner.encode(text)
    words = model.aligner.words(encoded)
    if not words:
        raise ValueError("there is no word in this text to look from")
    if not model.aligner.fits(len(encoded.token_ids)):
        raise ValueError(
            f"{len(encoded.token_ids)} tokens are past the model's context of {model.n_ctx}; use a "
            "shorter text"
        )
    chosen = tuple(require_head(head, model) for head in heads)
    last = Link(query=model.aligner.query(words[-1]), target=words[0])
    example = Example(encoded.token_ids, "text", words, (last,))
    (entries,) = read_samples(model, [Sample("", "on this text", example, chosen)])
    return [{**entry, "target": (), "rivals": ()} for entry in entries]


def choose(
    model: Model, rows: pd.DataFrame, folder: Path, *, n: int, seed: int
) -> tuple[Sample, ...]:
    """The typical and the worst example of the best head among these rows of one role.

    Raises:
        ValueError: The role's examples, crafted again, are not those of the run.
    """
    role = str(rows["role"].iloc[0])
    examples = crafted_examples(model, role, n=n, seed=seed).examples
    facts = read_manifest(folder).get("roles", {}).get(role, {})
    if facts.get("dataset_hash") not in (None, digest(examples)):
        raise ValueError(
            f"the examples of {role!r} are not those that {folder} was made with, for rolecall or "
            "the model is another; scan again"
        )
    best = rows.sort_values("score", ascending=False, kind="stable").head(HEADS)
    heads = tuple((int(layer), int(head)) for layer, head in best[["layer", "head"]].to_numpy())
    evidence = open_evidence(folder / "evidence" / f"{role}.parquet")
    typical, worst = typical_and_worst(evidence, heads[0])
    return (
        Sample(role, "on a typical example", examples[typical], heads),
        Sample(role, "on its worst example", examples[worst], heads[:1]),
    )


def typical_and_worst(evidence: Evidence, head: Head) -> tuple[int, int]:
    """The numbers of the examples with the median and the lowest score of this head."""
    column = evidence.heads.index(head)
    kind = evidence.facts.get("score_kind", "mass")
    parts = []
    for block in evidence.blocks():
        part = pd.DataFrame({"example": [row.example for row in block.rows]})
        part["twin"] = [row.twin for row in block.rows]
        part["mass"], part["hit"] = block.mass[:, column], block.hit[:, column]
        parts.append(part[~part["twin"]])
    means = pd.concat(parts).groupby("example")[["mass", "hit"]].mean()
    # Hits tie; the mass on the right key settles it.
    order = means.sort_values([kind, "mass"], kind="stable").index
    return int(order[len(order) // 2]), int(order[0])


def read_samples(model: Model, chosen: Sequence[Sample]) -> list[list[dict[str, Any]]]:
    """What the heads of each sample do on it, as `attention/<role>.json` holds it.

    Keys: head, caption, tokens, pattern ([query][key]; a decoder's rows end at the query), query,
    target and rivals of the first link, and what the head writes there (`raises`, `lowers`).
    """
    if not chosen:
        return []
    lengths = torch.tensor([len(sample.example.token_ids) for sample in chosen])
    ids = torch.zeros(len(chosen), int(lengths.max()), dtype=torch.long)
    for row, sample in zip(ids, chosen, strict=True):
        row[: len(sample.example.token_ids)] = torch.tensor(sample.example.token_ids)
    looks: dict[tuple[int, Head], Tensor] = {}
    writes: dict[tuple[int, Head], Tensor] = {}

    def see(layer: int, pattern: Float[Tensor, "batch head query key"]) -> None:
        for i, head in _wanted(chosen, layer):
            n = int(lengths[i])
            looks[i, head] = pattern[i, head[1], :n, :n].cpu()

    def take(layer: int, z: Float[Tensor, "batch pos head d_head"]) -> None:
        for i, head in _wanted(chosen, layer):
            writes[i, head] = z[i, chosen[i].example.links[0].query[-1], head[1]].float()

    # One padded batch, so that sixteen roles cost two forward passes.
    read_patterns(model, ids, see, lengths=lengths)
    read_z(model, ids, take, lengths=lengths)
    return [
        [_entry(model, s, head, pattern=looks[i, head], z=writes[i, head]) for head in s.heads]
        for i, s in enumerate(chosen)
    ]


def _wanted(chosen: Sequence[Sample], layer: int) -> list[tuple[int, Head]]:
    return [
        (i, head) for i, sample in enumerate(chosen) for head in sample.heads if head[0] == layer
    ]


def _entry(
    model: Model, sample: Sample, head: Head, *, pattern: Float[Tensor, "query key"], z: Tensor
) -> dict[str, Any]:
    texts = token_texts(model, sample.example.token_ids)
    link = sample.example.links[0]
    keep = range(len(texts)) if len(texts) <= LONGEST else link.query
    raises, lowers = top_tokens(model, z, head)
    return {
        "head": f"L{head[0]}H{head[1]}",
        "caption": sample.caption,
        "tokens": texts,
        "pattern": [
            _row(pattern[q], q, model.causal) if q in keep else [] for q in range(len(texts))
        ],
        "query": link.query,
        "target": link.target,
        "rivals": link.rivals,
        "raises": raises,
        "lowers": lowers,
    }


def _row(weights: Float[Tensor, " key"], query: int, causal: bool) -> list[float]:
    seen = weights[: query + 1] if causal else weights
    return np.round(seen.double().numpy(), 4).tolist()
