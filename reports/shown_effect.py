"""Which of a head's effects stands for it in a list of heads."""

from __future__ import annotations

from typing import Any

import pandas as pd

from rolecall.analyses.own_task import DAMAGE, HEAD, primary
from rolecall.reports.own_task import own_tasks
from rolecall.reports.run import Run, head_name, labels_of, records


def shown_effects(run: Run) -> dict[tuple[int, int], str]:
    """Head → the task whose effect stands for it, among those that the model does.

    The task of the role that it is named after; else one that needs it (tier D); else that on which
    its effect is largest, as a share of the whole.
    """
    effects = run.table("effects")
    if effects is None or effects.empty:
        return {}
    rows = primary(effects)
    rows = rows[rows["usable"] & (rows["task"] != DAMAGE) & rows["total"].notna()]
    tasks = own_tasks(run)
    named = labels_of(run)[[*HEAD, "label"]]
    own = _marked(rows, named.assign(task=named["label"].map(tasks)))
    verdicts = run.table("verdicts")
    helping = pd.DataFrame(columns=[*HEAD, "role"])
    if verdicts is not None:
        helping = verdicts.loc[verdicts["tier"] == "D", [*HEAD, "role"]]
    needed = _marked(rows, helping.assign(task=helping["role"].map(tasks)))
    share = (rows["total"] / rows["scale"]).astype(float).abs()
    rows = rows.assign(own=own, needed=needed, share=share)
    order = ["own", "needed", "share"]
    first = rows.sort_values(order, ascending=False, kind="stable").drop_duplicates(HEAD)
    return {(int(a), int(b)): str(task) for a, b, task in first[[*HEAD, "task"]].to_numpy()}


def _marked(rows: pd.DataFrame, wanted: pd.DataFrame) -> pd.Series:
    """Where a row's head and task are among the wanted ones."""
    keys = [*HEAD, "task"]
    there = set(wanted[keys].dropna().itertuples(index=False, name=None))
    return pd.Series(
        [key in there for key in rows[keys].itertuples(index=False, name=None)], rows.index
    )


def largest_effects(run: Run, *, top: int = 4) -> tuple[dict[str, Any], ...]:
    """The heads with the largest effects on each task, either way, task by task."""
    effects = run.table("effects")
    if effects is None or effects.empty:
        return ()
    rows = primary(effects)
    rows = rows[(rows["task"] != DAMAGE) & rows["total"].notna()]
    rows = rows.assign(size=rows["total"].astype(float).abs())
    rows = rows.sort_values(["task", "size"], ascending=[True, False], kind="stable")
    shown = rows.groupby("task", sort=False).head(top)
    return tuple({**row, "name": head_name(row["layer"], row["head"])} for row in records(shown))
