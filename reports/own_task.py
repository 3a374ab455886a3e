"""Effects on each role's own task, and which kind of replacement to quote."""

from __future__ import annotations

import pandas as pd

from rolecall.analyses.own_task import PRIMARY, primary
from rolecall.reports.run import Run


def own_tasks(run: Run) -> dict[str, str]:
    """Role → the task that says whether heads of that role matter, where it was run.

    The manifest names each role's task; a task of a role's own name is taken for it.
    """
    effects = run.table("effects")
    if effects is None:
        return {}
    there, said = set(effects["task"]), run.manifest.get("roles", {})
    scores = run.table("scores")
    roles = sorted({*said, *(() if scores is None else scores["role"])})
    found = {role: said.get(role, {}).get("task") or role for role in roles}
    return {role: task for role, task in found.items() if task in there}


def preferred_kind(effects: pd.DataFrame) -> str:
    """The kind of replacement to quote: mean where there is one, else resample, else zero."""
    there = set(effects["ablation"])
    return next((kind for kind in PRIMARY if kind in there), sorted(there)[0])


def own_effects(run: Run) -> pd.DataFrame:
    """Rows of the effects table of single heads, one a role and head, on each role's own task.

    With a column `role`, and `usable`: false where the model does not do the task.
    """
    effects = run.table("effects")
    if effects is None or effects.empty:
        return pd.DataFrame(columns=["role", "task", "layer", "head", "ablation", "total"])
    rows = primary(effects)
    roles = pd.DataFrame(own_tasks(run).items(), columns=["role", "task"])
    return rows.merge(roles, on="task").sort_values(["role", "layer", "head"], ignore_index=True)
