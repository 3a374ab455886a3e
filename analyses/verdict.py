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
from rolecall.analyses.evidence import Evidence, open_evidence
from rolecall.analyses.judge import HEAD, Context, decided, head_table, judge, near_misses
from rolecall.analyses.score_table import Settings
from rolecall.analyses.sensitivity import sweep
from rolecall.analyses.stability import stability
from rolecall.analyses.tables import read_json, read_table, replace_file, write_json, write_table
from rolecall.analyses.tiers import Thresholds

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
    scores = read_table(folder, "scores")
    notes: list[str] = []
    effects = _optional(folder, "effects", "whether any role matters to the model", notes)
    weights = _optional(folder, "weights", "whether weights speak against a role", notes)
    manifest = _manifest(folder, notes)
    evidence = _evidence(folder, scores, notes)
    context = _context(manifest, scores)
    settings = Settings(n_resamples=n_resamples, seed=seed)
    first = judge(scores, effects, weights, at, context)
    competing = conditioned(first, evidence, settings)
    second = judge(scores, effects, weights, at, _with(context, competing))
    stable = stability(second, evidence, settings, at)
    checks = stable.rows.merge(competing, on=["role", *HEAD], how="left")
    last = _with(context, checks)

    def heads(thresholds: Thresholds) -> pd.DataFrame:
        return head_table(judge(scores, effects, weights, thresholds, last))

    judged = judge(scores, effects, weights, at, last)
    notes += _undecided(judged, at, context)
    result = Verdicts(
        folder=folder,
        verdicts=decided(judged, at, context),
        heads=head_table(judged),
        near_misses=near_misses(judged, at),
        sensitivity=sweep(heads, at),
        jaccard=stable.jaccard,
        notes=tuple(notes),
    )
    _write(result)
    _record(folder, manifest, {"verdict": {**asdict(at), "n_resamples": n_resamples}}, started)
    return result


def _require(at: Thresholds, n_resamples: int) -> None:
    if n_resamples < 20:
        raise ValueError(f"{n_resamples} resamples give no interval; take 20 or more")
    if not 0 < at.alpha < 1:
        raise ValueError(f"alpha is an error rate between 0 and 1, not {at.alpha}")
    for name, value in asdict(at).items():
        if value < 0:
            raise ValueError(f"{name} cannot be negative; got {value}")


def _optional(folder: Path, name: str, open_question: str, notes: list[str]) -> pd.DataFrame | None:
    try:
        return read_table(folder, name)
    except ValueError as error:
        notes.append(f"{error}; not decided: {open_question}")
        return None


def _manifest(folder: Path, notes: list[str]) -> dict[str, Any]:
    try:
        return read_json(folder / "manifest.json")
    except ValueError as error:
        notes.append(f"{error}; roles' tasks are taken from the installed probes")
        return {}


def _evidence(folder: Path, scores: pd.DataFrame, notes: list[str]) -> dict[str, Evidence]:
    found: dict[str, Evidence] = {}
    for role, rows in scores.groupby("role"):
        path = folder / "evidence" / f"{role}.parquet"
        try:
            evidence = open_evidence(path)
            heads = set(rows[HEAD].itertuples(index=False, name=None))
            if set(evidence.heads) != heads:
                raise ValueError(f"{path} is of other heads than scores.parquet")
        except ValueError as error:
            notes.append(
                f"{error}; not decided: how stable {role} is, and whether it survives "
                "a head's other roles"
            )
            continue
        found[str(role)] = evidence
    return found


def _context(manifest: Mapping[str, Any], scores: pd.DataFrame) -> Context:
    """Each role's task, from the manifest, and for roles it does not know from the probes."""
    said = manifest.get("roles", {})
    tasks, no_task = {}, {}
    for role in scores["role"].unique():
        known = said.get(role) or _installed(role)
        if known.get("task"):
            tasks[role] = known["task"]
        elif known.get("no_task"):
            no_task[role] = known["no_task"]
    return Context(tasks, no_task)


def _installed(role: str) -> dict[str, str | None]:
    from rolecall.probes.registry import known

    probe = next((p for p in known() if p.name == role), None)
    if probe is None:
        return {}
    return {"task": getattr(probe.task, "__name__", None), "no_task": probe.no_task}


def _with(context: Context, checks: pd.DataFrame) -> Context:
    return Context(context.tasks, context.no_task, checks)


def _undecided(judged: pd.DataFrame, at: Thresholds, context: Context) -> list[str]:
    notes = []
    measured = judged["total"].notna().any()
    for role, rows in judged.groupby("role", sort=True):
        templates = int(rows["n_templates"].max())
        if templates < at.min_templates:
            notes.append(
                f"role {role}: {templates} templates, an interval needs "
                f"{at.min_templates}; not decided: any label of this role"
            )
        if role in context.no_task:
            notes.append(
                f"role {role} has no task ({context.no_task[role]}); not decided: "
                "whether the model depends on its heads"
            )
        elif role not in context.tasks:
            notes.append(
                f"role {role} names no task; not decided: whether the model depends on its heads"
            )
        elif measured and rows["total"].isna().all():
            reason = rows["why"].dropna().iloc[0]
            notes.append(
                f"role {role}: {reason}; not decided: whether the model depends on its heads"
            )
    return notes


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
