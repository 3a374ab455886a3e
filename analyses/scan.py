"""Scan: every head of a model scored for every role, from attention on crafted data.

Each role's examples run in batches of equal length; each layer's pattern is reduced to a few
numbers a link as it appears, and written out. The scores table is then worked out from the files.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from einops import rearrange

from rolecall.analyses.check import require
from rolecall.analyses.evidence import Block, EvidenceWriter, Head, LinkRow, open_evidence
from rolecall.analyses.hooks import read_patterns
from rolecall.analyses.manifest import Manifest, check_folder, digest
from rolecall.analyses.models import Model
from rolecall.analyses.run_folder import folder_for
from rolecall.analyses.score_table import RoleScores, Settings, join, score_role
from rolecall.analyses.tables import write_table
from rolecall.probes.accounts import standing
from rolecall.probes.base import Crafted, Example, Probe
from rolecall.probes.contract import craft
from rolecall.probes.registry import BUILT_IN, PluginWarning, find
from rolecall.probes.scores import Layout, Reading, even_pattern, layout, read_links

Progress = Callable[[str, int, int], None]
"""Called with the role, the tokens done and the tokens in all."""

DEFAULT_N = 96
TOKENS_A_BATCH = (512, 4096)
"""Fewest and most tokens at once; between them, fewer the wider the model (`tokens_a_batch`)."""


@dataclass(frozen=True)
class ScanResult:
    """What a scan found.

    Attributes:
        folder: The run folder.
        scores: The scores table (design §6).
        manifest: What was run, on what.
    """

    folder: Path
    scores: pd.DataFrame
    manifest: dict[str, Any]

    def top(self, n: int = 3) -> pd.DataFrame:
        """The `n` heads with the highest score of each role."""
        ranked = self.scores.sort_values(["role", "score"], ascending=[True, False], kind="stable")
        return ranked.groupby("role", sort=False).head(n).reset_index(drop=True)

    def _repr_html_(self) -> str:
        """What a notebook shows: a small layer × head map of each role, in colour."""
        maps = []
        for role, rows in self.scores.groupby("role"):
            grid = rows.pivot(index="layer", columns="head", values="score")
            style = grid.style.background_gradient(cmap="cividis", vmin=0, vmax=1)
            style = style.format(precision=2, na_rep="").set_caption(
                f"{role} ({rows.score_kind.iloc[0]})"
            )
            maps.append(f'<div style="display:inline-block;margin:0.5em">{style.to_html()}</div>')
        return "\n".join(maps)


def scan(
    model: Model,
    roles: Iterable[str] = (),
    *,
    n: int = DEFAULT_N,
    seed: int = 0,
    out: Path | None = None,
    progress: Progress | None = None,
) -> ScanResult:
    """Every head's score for every role (all known roles, or those named).

    Args:
        model: From `load_model`.
        roles: Names of roles, none for all.
        n: Examples a role, about.
        seed: Of the examples and of the resampling; the same seed gives the same bytes.
        out: The run folder; if None, one that is gone when Python ends. Roles whose evidence is
            there already, for this model, data and seed, are not run again.
        progress: Told how far the work is.

    Raises:
        ValueError: An unknown role, or a model that does not pass `check`: no table is written.
    """
    wanted = find(roles)
    if n < 1:
        raise ValueError(f"a scan needs at least one example a role; got n={n}")
    started = time.perf_counter()
    require(model)
    folder = folder_for(out)
    check_folder(folder, model)
    manifest = Manifest.of(model, n=n, seed=seed)
    manifest.timed("check", started)
    pace = _Pace(progress, sum(_can_hold(model, probe) for probe in wanted))
    scores: dict[str, RoleScores] = {}
    for probe in wanted:
        started = time.perf_counter()
        data = _craft(probe, model, n=n, seed=seed)
        if data is None:
            continue
        made_of = [manifest.model_digest(), manifest.add_role(probe, data), probe.score_kind]
        any_left = bool(data.examples)
        path = folder / "evidence" / f"{probe.name}.parquet"
        if any_left and not _is_done(path, digest(made_of)):
            facts = {"score_kind": probe.score_kind, "fingerprint": digest(made_of)}
            _gather(model, {"role": probe.name, **facts}, data, path=path, pace=pace)
        del data  # examples are Python objects, many times the size of what is kept of them
        if any_left:
            group_size = model.n_heads // model.n_kv_heads
            scores[probe.name] = score_role(
                open_evidence(path), probe, group_size=group_size, settings=Settings(seed=seed)
            )
        manifest.timed(f"scan {probe.name}", started)
    table = join(scores)
    write_table(folder, "scores", table)
    return ScanResult(folder, table, manifest.write(folder))


class _Pace:
    """How far a scan is: tokens done, and tokens in all as far as the roles so far foretell."""

    def __init__(self, progress: Progress | None, n_roles: int):
        self._progress, self._n_roles = progress, n_roles
        self._begun = self._known = self._done = 0

    def begin(self, tokens: int) -> None:
        """Nothing; another role begins, of so many tokens."""
        self._begun, self._known = self._begun + 1, self._known + tokens

    def step(self, role: str, tokens: int) -> None:
        """Nothing; so many more tokens of the role are done."""
        self._done += tokens
        if self._progress is not None:
            total = self._known * max(self._n_roles, self._begun) // self._begun
            self._progress(role, self._done, total)


def _can_hold(model: Model, probe: Probe) -> bool:
    return not (probe.needs_future and model.causal)


def _craft(probe: Probe, model: Model, *, n: int, seed: int) -> Crafted | None:
    """The role's examples; None, with a warning, where somebody else's probe fails."""
    try:
        return craft(probe, model.aligner, n=n, seed=seed)
    except Exception as error:
        if probe in BUILT_IN:
            raise
        text = f"role {probe.name!r} is left out: {type(error).__name__}: {error}"
        warnings.warn(text, PluginWarning, stacklevel=3)
        return None


def _is_done(path: Path, fingerprint: str) -> bool:
    try:
        return open_evidence(path).facts.get("fingerprint") == fingerprint
    except ValueError:
        return False


def _gather(model: Model, facts: dict[str, Any], data: Crafted, *, path: Path, pace: _Pace) -> None:
    """Nothing; writes a role's evidence."""
    heads = [(layer, head) for layer in model.pattern_layers for head in range(model.n_heads)]
    todo = list(batches(data.examples, tokens_a_batch(model)))
    pace.begin(sum(_n_tokens(batch) for batch in todo))
    with EvidenceWriter(path, heads, facts) as writer:
        for batch in todo:
            writer.append(read_batch(model, facts["score_kind"], batch, heads))
            pace.step(facts["role"], _n_tokens(batch))


def _n_tokens(batch: Batch) -> int:
    return sum(len(version.token_ids) for version in versions_of(batch))


Batch = tuple[tuple[int, Example], ...]
"""Examples of one length with their numbers in the data set."""


def tokens_a_batch(model: Model) -> int:
    """How many tokens to run at once: more where a layer is little work, fewer where it is much."""
    fewest, most = TOKENS_A_BATCH
    return min(most, max(fewest, 2**19 // model.d_model))


def batches(examples: Sequence[Example], tokens: int) -> Iterator[Batch]:
    """Examples with their numbers, by length, at most about so many tokens at once."""
    order = sorted(range(len(examples)), key=lambda i: (len(examples[i].token_ids), i))
    batch: list[tuple[int, Example]] = []
    for i in order:
        example = examples[i]
        length = len(example.token_ids)
        full = len(versions_of(batch)) + len(example.versions) > tokens / length
        if batch and (full or len(batch[0][1].token_ids) != length):
            yield tuple(batch)
            batch = []
        batch.append((i, example))
    if batch:
        yield tuple(batch)


def versions_of(batch: Iterable[tuple[int, Example]]) -> list[Example]:
    """The batch's examples, each twin right behind its original."""
    return [version for _, example in batch for version in example.versions]


def read_batch(model: Model, score_kind: str, batch: Batch, heads: Sequence[Head]) -> Block:
    """What every head does on every link of a batch, its chance worked out by the kind of score."""
    versions = versions_of(batch)
    where = layout(versions, model.aligner)
    at = {head: column for column, head in enumerate(heads)}
    n_links, n_rivals = where.has_rival.shape
    values = np.zeros((3, n_links, len(heads)), dtype=np.float32)
    rivals = np.zeros((n_links, len(heads), n_rivals), dtype=np.float32)

    def visit(layer: int, pattern: torch.Tensor) -> None:
        reading = read_links(pattern, where)
        columns = slice(at[layer, 0], at[layer, 0] + model.n_heads)
        values[0, :, columns] = reading.mass.cpu()
        values[1, :, columns] = reading.hit.cpu()
        values[2, :, columns] = reading.sink.cpu()
        rivals[:, columns] = reading.rivals.cpu()

    read_patterns(model, torch.tensor([v.token_ids for v in versions]), visit)
    mass, hit, sink = values
    return Block(
        rows=_link_rows(batch, even(where, score_kind, model.causal)),
        mass=mass,
        hit=hit,
        sink=sink,
        rivals=rivals,
        has_rival=where.has_rival.numpy(),
    )


def even(where: Layout, score_kind: str, causal: bool) -> np.ndarray:
    """What an even head scores on each link of a batch."""
    batch, _, length = where.words.shape
    reading: Reading = read_links(even_pattern(batch, length, causal=causal), where)
    value = reading.mass if score_kind == "mass" else reading.hit
    return rearrange(value, "link 1 -> link").double().numpy()


def _link_rows(batch: Batch, chance: np.ndarray) -> tuple[LinkRow, ...]:
    rows: list[LinkRow] = []
    for number, original in batch:
        for example in original.versions:
            for link in example.links:
                stand = standing(example, link)
                rows.append(
                    LinkRow(
                        example=number,
                        template=original.template,
                        twin=example is not original,
                        query=link.query,
                        target=link.target,
                        offsets=stand.offsets,
                        nearest=stand.nearest,
                        first=stand.first,
                        same_word=stand.same_word,
                        frequency=stand.frequency,
                        chance=float(chance[len(rows)]),
                    )
                )
    return tuple(rows)
