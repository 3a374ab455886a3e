"""Which tasks of the effects table are a role's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rolecall.reports.run import Run

PREFERRED = ("mean", "resample", "zero")
"""Kinds of replacement, the one to quote first: zero takes the head off its data the most."""


def own_tasks(run: Run) -> dict[str, str]:
    """Role → the task that says whether heads of that role matter, for roles with effects."""
    effects = run.table("effects")
    if effects is None:
        return {}
    there = set(effects["task"])
    named = _from_manifest(run.manifest)
    roles = sorted({*named, *_roles(run)})
    found = {role: named.get(role, role) for role in roles}
    return {role: task for role, task in found.items() if task in there}


def preferred_kind(effects: pd.DataFrame) -> str:
    """The kind of replacement to quote: mean where there is one, else resample, else zero."""
    there = set(effects["ablation"])
    return next((kind for kind in PREFERRED if kind in there), sorted(there)[0])


def own_effects(run: Run) -> pd.DataFrame:
    """Rows of the effects table, one a role and head, for each role's own task.

    With a column `role` in front; of the preferred kind of replacement of that task.
    """
    effects = run.table("effects")
    parts = []
    for role, task in own_tasks(run).items():
        rows = effects[effects["task"] == task]
        rows = rows[rows["ablation"] == preferred_kind(rows)]
        parts.append(rows.assign(role=role))
    if not parts:
        return pd.DataFrame(columns=["role", "task", "layer", "head", "ablation", "total"])
    return pd.concat(parts, ignore_index=True)


def _roles(run: Run) -> set[str]:
    scores = run.table("scores")
    return set() if scores is None else set(scores["role"])


def _from_manifest(manifest: Mapping[str, Any]) -> dict[str, str]:
    named: dict[str, str] = {}
    for task, facts in manifest.get("tasks", {}).items():
        roles = facts.get("roles") or facts.get("role") or []
        named |= dict.fromkeys([roles] if isinstance(roles, str) else roles, task)
    for role, facts in manifest.get("roles", {}).items():
        if isinstance(facts.get("task"), str):
            named[role] = facts["task"]
    return named
