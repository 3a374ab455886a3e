"""What a verdict is worked out from, as it lies in a run folder, and what is missing of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from rolecall.analyses.evidence import Evidence, open_evidence
from rolecall.analyses.judge import Context
from rolecall.analyses.manifest_file import read_manifest
from rolecall.analyses.own_task import HEAD
from rolecall.analyses.tables import Lacking, read_table
from rolecall.analyses.tiers import Thresholds


@dataclass(frozen=True)
class Inputs:
    """A run folder as a verdict reads it.

    Attributes:
        scores: The scores table.
        effects: The effects table, or None.
        weights: The weights table, or None.
        evidence: Role → its evidence, for those whose evidence is there.
        manifest: The manifest; empty where there is none.
        context: Each role's task, or why it has none.
        notes: What is missing, and what can therefore not be decided.
    """

    scores: pd.DataFrame
    effects: pd.DataFrame | None
    weights: pd.DataFrame | None
    evidence: Mapping[str, Evidence]
    manifest: dict[str, Any]
    context: Context
    notes: tuple[str, ...]


def read_inputs(folder: Path) -> Inputs:
    """Everything of the folder that a verdict needs.

    Raises:
        ValueError: There are no scores, or a table or the manifest cannot be read.
    """
    scores = read_table(folder, "scores")
    notes: list[str] = []
    effects = _optional(folder, "effects", "whether any role matters to the model", notes)
    weights = _optional(folder, "weights", "whether weights speak against a role", notes)
    manifest = _manifest(folder, notes)
    evidence = _evidence(folder, scores, notes)
    context = _context(manifest, scores)
    return Inputs(scores, effects, weights, evidence, manifest, context, tuple(notes))


def _optional(folder: Path, name: str, open_question: str, notes: list[str]) -> pd.DataFrame | None:
    try:
        return read_table(folder, name)
    # A damaged table is an error: it must not pass for what was not measured.
    except Lacking as error:
        notes.append(f"{error}; not decided: {open_question}")
        return None


def _manifest(folder: Path, notes: list[str]) -> dict[str, Any]:
    try:
        return read_manifest(folder)
    except Lacking as error:
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


def undecided(judged: pd.DataFrame, at: Thresholds, context: Context) -> list[str]:
    """What could not be decided of each role, and why."""
    notes = []
    measured = judged["total"].notna().any()
    for key, rows in judged.groupby("role", sort=True):
        role = str(key)
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
