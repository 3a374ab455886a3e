"""Heads that do the same, and heads whose loss the others make good."""

from __future__ import annotations

from typing import Any

import numpy as np

from rolecall.analyses.own_task import DAMAGE, primary
from rolecall.analyses.tiers import Thresholds
from rolecall.reports.run import NO_LABEL, Run, head_name, labels_of, rows_of
from rolecall.reports.similarity import clustered, head_profiles

LEAST_REPAIR = 0.2
"""Self-repair below it is not listed."""
COMPARED = 200
"""Heads that are compared with one another: those that stand out most for some role."""


def alike(run: Run) -> tuple[dict[str, Any], ...]:
    """Groups of labelled heads with nearly the same profile of scores, largest first."""
    labels = labels_of(run)
    named = labels[labels["label"] != NO_LABEL]
    label = {head_name(r["layer"], r["head"]): r["label"] for r in named.to_dict("records")}
    profiles = head_profiles(rows_of(run, "scores"))
    profiles = profiles[profiles.index.isin(label)].head(COMPARED)
    ordered, groups = clustered(profiles)
    found = []
    for group in np.unique(groups):
        names = [str(name) for name in ordered.index[groups == group]]
        if len(names) > 1:
            roles = sorted({label[name] for name in names})
            found.append({"heads": _in_order(names), "roles": roles})
    return tuple(sorted(found, key=lambda group: (-len(group["heads"]), group["heads"])))


def repaired(run: Run, *, least: float = LEAST_REPAIR) -> tuple[dict[str, Any], ...]:
    """Heads of whose direct effect the rest of the model makes good at least this share.

    On tasks that the model does, where the direct effect helps and is more than negligible. What is
    more than made good, so that the total effect has the other sign, is no repair.
    """
    effects = run.table("effects")
    if effects is None or effects.empty:
        return ()
    rows = primary(effects)
    share = rows["self_repair"].astype(float).fillna(0.0)
    helps = rows["direct"] > Thresholds().negligible * rows["scale"]
    on_task = rows["usable"] & (rows["task"] != DAMAGE)
    rows = rows[share.between(least, 1.0) & helps & on_task]
    rows = rows.sort_values("self_repair", ascending=False, kind="stable").head(20)
    columns = ["layer", "head", "task", "direct", "total", "self_repair"]
    return tuple(
        {**row, "name": head_name(row["layer"], row["head"])}
        for row in rows[columns].to_dict("records")
    )


def _in_order(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: tuple(map(int, name[1:].split("H"))))
