"""Effects on each role's own task, what the verdict made of them, and which kind to quote."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from rolecall.analyses.ability import ability_in_words
from rolecall.analyses.labels import LABELS
from rolecall.analyses.own_task import PRIMARY, asked_for, own_task, primary
from rolecall.analyses.tiers import Thresholds
from rolecall.reports.run import Run, rows_of

KEYS = ["role", "layer", "head"]


def own_tasks(run: Run) -> dict[str, str]:
    """Role → the task that says whether heads of that role matter, where it was run.

    The manifest names each role's task, or else the verdicts do; a task of a role's own name is
    taken for it. Without effects it is the tasks that the verdicts were worked out from.
    """
    effects, scores, verdicts = (run.table(name) for name in ("effects", "scores", "verdicts"))
    judged: dict[str, str] = {}
    if verdicts is not None and "task" in verdicts:
        rows = verdicts.dropna(subset="task")
        judged = dict(zip(rows["role"], rows["task"], strict=True))
    if effects is None:
        return judged
    there, said = set(effects["task"]), run.manifest.get("roles", {})
    roles = sorted({*said, *judged, *(() if scores is None else scores["role"])})
    found = {role: said.get(role, {}).get("task") or judged.get(role) or role for role in roles}
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


def judged_effects(run: Run) -> pd.DataFrame:
    """For each row of the scores, in its order, the effect on the role's task and how it compares.

    `ratio` is the effect over that elsewhere, `ratio_low` its lower end. `p` is what the effect was
    held against: `p_max`, or for a head that has the pattern the p of what it asked for, where that
    is smaller. `effect` is what a verdict made of it (`tiers.Effect`).
    """
    scores, verdicts = rows_of(run, "scores"), run.table("verdicts")
    heads = scores[["role", "family", "layer", "head"]].reset_index(drop=True)
    held = verdicts if verdicts is not None else pd.DataFrame(columns=[*KEYS, "tier"])
    held = pd.MultiIndex.from_frame(held.loc[held["tier"].isin(LABELS), KEYS])
    heads["pattern"] = pd.MultiIndex.from_frame(heads[KEYS]).isin(held)
    found = own_task(heads, run.table("effects"), own_tasks(run), thresholds_of(run))
    if "p_max" not in found:
        return found.assign(p=np.nan, usable=None)
    return found.assign(p=np.fmin(found["p_max"].astype(float), asked_for(found)))


def with_p(rows: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """Rows of the effects table with `p`: what `judged_effects` has for head and task, or p_max."""
    keys = ["task", "layer", "head"]
    held = judged.dropna(subset=["task", "p"]).groupby(keys)["p"].min()
    asked = held.reindex(pd.MultiIndex.from_frame(rows[keys])).to_numpy(dtype=float)
    return rows.assign(p=np.fmin(rows["p_max"].to_numpy(dtype=float), asked))


def thresholds_of(run: Run) -> Thresholds:
    """What the run's verdicts asked for, as the manifest has it, else the usual."""
    said = run.manifest.get("settings", {}).get("verdict", {})
    names = {field.name for field in dataclasses.fields(Thresholds)}
    return Thresholds(**{name: value for name, value in said.items() if name in names})


def not_done(run: Run) -> dict[str, str]:
    """Task → how the model fares at it, for tasks that it was not shown to do.

    An effect on such a task means nothing: what is not done cannot be lost.
    """
    effects = run.table("effects")
    if effects is None or effects.empty:
        return {}
    rows = primary(effects)
    rows = rows[~rows["usable"]].drop_duplicates("task")
    return {str(row["task"]): ability_in_words(row) for row in rows.to_dict("records")}
