"""What it does to a role's task to remove every head of the role at once."""

from __future__ import annotations

from typing import Any

import pandas as pd

from rolecall.reports.role_sentence import Together
from rolecall.reports.run import Run, head_name, records

NEEDED = ("task", "order", "removed", "metric", "value", "low", "high", "heads")


def all_at_once(run: Run, role: str) -> Together | None:
    """What the pruning table says of it; None where that very set of heads was not pruned."""
    table, verdicts = run.table("pruning"), run.table("verdicts")
    if table is None or verdicts is None or not set(NEEDED) <= set(table.columns):
        return None
    held = verdicts[(verdicts["role"] == role) & (verdicts["tier"] != "D")]
    names = {head_name(layer, head) for layer, head in held[["layer", "head"]].to_numpy()}
    rows = {row["removed"]: row for row in records(table[table["order"] == role])}
    row = rows.get(len(names))
    if not names or row is None or set(str(row["heads"]).split("+")) != names:
        return None
    drawn = table[(table["task"] == row["task"]) & (table["order"] == "random")]
    random = records(drawn[drawn["removed"] == len(names)])
    return Together(
        removed=len(names),
        metric=str(row["metric"]),
        clean=float(rows[0]["value"]),
        without=float(row["value"]),
        random=float(random[0]["value"]) if random else None,
        clear=bool(random) and _clear(row, random[0]),
    )


def _clear(row: dict[str, Any], random: dict[str, Any]) -> bool:
    """Whether the role's heads cost more than any of the random draws, interval and all."""
    if row["metric"] == "loss":
        return bool(_bound(row, "low") > _bound(random, "high"))
    return bool(_bound(row, "high") < _bound(random, "low"))


def _bound(row: dict[str, Any], side: str) -> float:
    return row[side] if pd.notna(row[side]) else row["value"]
