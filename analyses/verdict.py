"""Verdict: a run folder's tables and evidence in, verdicts out; no model, no torch.

Writes verdicts.parquet, heads.csv, near_misses.csv and sensitivity.csv. What is missing is named,
with what could therefore not be decided.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rolecall.analyses.conditioning import conditioned
from rolecall.analyses.judge import Context, decided, judge
from rolecall.analyses.labels import head_table, near_misses
from rolecall.analyses.own_task import HEAD
from rolecall.analyses.score_table import Settings
from rolecall.analyses.sensitivity import sweep
from rolecall.analyses.stability import stability
from rolecall.analyses.tables import replace_file, write_json, write_table
from rolecall.analyses.tiers import Thresholds
from rolecall.analyses.verdict_inputs import read_inputs, undecided

RESAMPLES = 1000


@dataclass(frozen=True)
class Verdicts:
    """What was decided.

    Attributes:
        folder: The run folder.
        verdicts: One row for each (role, layer, head) that has a tier.
        heads: One row a head (heads.csv).
        near_misses: For each head without a label the role it came closest to, and why not.
        sensitivity: How many labels each threshold moves.
        jaccard: Per role, and `all`: overlap of the labelled heads with those of a resample.
        notes: What was missing, and what was therefore not decided.
    """

    folder: Path
    verdicts: pd.DataFrame
    heads: pd.DataFrame
    near_misses: pd.DataFrame
    sensitivity: pd.DataFrame
    jaccard: Mapping[str, float]
    notes: tuple[str, ...]


def verdict(
    folder: Path,
    thresholds: Thresholds | None = None,
    *,
    n_resamples: int = RESAMPLES,
    seed: int = 0,
) -> Verdicts:
    """The verdicts of a run folder, worked out from what is on disk and written there.

    Raises:
        ValueError: There are no scores that could be read: nothing can be decided.
    """
    started = time.perf_counter()
    folder, at = Path(folder), thresholds or Thresholds()
    _require(at, n_resamples)
    given = read_inputs(folder)
    tables, context = (given.scores, given.effects, given.weights), given.context
    settings = Settings(n_resamples=n_resamples, seed=seed)
    first = judge(*tables, at, context)
    competing = conditioned(first, given.evidence, settings)
    second = judge(*tables, at, _with(context, competing))
    stable = stability(second, given.evidence, settings, at)
    checks = stable.rows.merge(competing, on=["role", *HEAD], how="left")
    last = _with(context, checks)

    def heads(thresholds: Thresholds) -> pd.DataFrame:
        return head_table(judge(*tables, thresholds, last))

    judged = judge(*tables, at, last)
    result = Verdicts(
        folder=folder,
        verdicts=decided(judged, at, context),
        heads=head_table(judged),
        near_misses=near_misses(judged, at),
        sensitivity=sweep(heads, at),
        jaccard=stable.jaccard,
        notes=(*given.notes, *undecided(judged, at, context)),
    )
    _write(result)
    _record(
        folder, given.manifest, {"verdict": {**asdict(at), "n_resamples": n_resamples}}, started
    )
    return result


def _require(at: Thresholds, n_resamples: int) -> None:
    if n_resamples < 20:
        raise ValueError(f"{n_resamples} resamples give no interval; take 20 or more")
    if not 0 < at.alpha < 1:
        raise ValueError(f"alpha is an error rate between 0 and 1, not {at.alpha}")
    for name, value in asdict(at).items():
        if value < 0:
            raise ValueError(f"{name} cannot be negative; got {value}")


def _with(context: Context, checks: pd.DataFrame) -> Context:
    return Context(context.tasks, context.no_task, checks)


def _write(result: Verdicts) -> None:
    # Infinite where nothing else suffers: a table holds numbers or nothing.
    finite = result.verdicts["ratio"].where(np.isfinite(result.verdicts["ratio"]))
    write_table(result.folder, "verdicts", result.verdicts.assign(ratio=finite))
    for name in ("heads", "near_misses", "sensitivity"):
        rows: pd.DataFrame = getattr(result, name)
        replace_file(
            result.folder / f"{name}.csv",
            lambda path, rows=rows: rows.to_csv(
                path, index=False, lineterminator="\n", float_format="%.6g"
            ),
        )


def _record(
    folder: Path, manifest: dict[str, Any], settings: dict[str, Any], started: float
) -> None:
    """Nothing; adds the thresholds and the wall time to the manifest, if there is one."""
    if not manifest:
        return
    seconds = {
        **manifest.get("wall_seconds", {}),
        "verdict": round(time.perf_counter() - started, 3),
    }
    manifest = {**manifest, "settings": {**manifest.get("settings", {}), **settings}}
    write_json(folder / "manifest.json", {**manifest, "wall_seconds": seconds})
