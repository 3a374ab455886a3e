"""From verdicts to one label a head: its leading role, or `no clean label` and what it lacks.

Nothing forces a label: a head that no role fits has none, and that is the usual case.
"""

from __future__ import annotations

from typing import Any, cast

import pandas as pd

from rolecall.analyses.hierarchy import SINK
from rolecall.analyses.own_task import HEAD
from rolecall.analyses.reasons import lacking
from rolecall.analyses.tiers import TIERS, Thresholds

NO_LABEL = "no clean label"
ORDER = {tier.name: place for place, tier in enumerate(TIERS)}
LABELS = ("A", "B", "E", "C")
"""Tiers that carry the role's name."""


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows whose tier carries the role's name, each head's leading role first.

    A sink is what a head is at rest, so any other role leads it. Then the better tier, the simpler
    account, the higher score.
    """
    named = rows[rows["tier"].isin(LABELS)]
    order = pd.DataFrame(
        {
            "rest": named["level"] == SINK,
            "tier": named["tier"].map(ORDER).astype(float),
            "level": named["level"],
            "score": -named["score"],
            "role": named["role"],
        }
    )
    return named.loc[order.sort_values(list(order.columns), kind="stable").index]


def head_table(judged: pd.DataFrame) -> pd.DataFrame:
    """heads.csv: one row a head, its leading role or `no clean label`.

    `score`, `margin`, `total` and `direct` are those of the label's role, empty without one; `sink`
    is the mean over all roles' links. A head without a label has tier D where some task needs it.
    """
    heads = judged[[*HEAD, "kv_group"]].drop_duplicates(HEAD).sort_values(HEAD)
    named = ranked(judged)
    cells = ["role", "tier", "score", "margin", "total", "direct"]
    first = named.drop_duplicates(HEAD)[[*HEAD, *cells]].rename(columns={"role": "label"})
    held = named.assign(text=named["role"] + " (" + named["tier"] + ")")
    roles = held.groupby(HEAD)["text"].agg("; ".join).rename("roles").reset_index()
    needed_by = judged[judged["tier"] == "D"][HEAD].drop_duplicates().assign(needed="D")
    sink = judged.groupby(HEAD)["sink"].mean().reset_index()
    table = heads
    for part in (first, roles, needed_by, sink):
        table = table.merge(part, on=HEAD, how="left")
    table["label"] = table["label"].fillna(NO_LABEL)
    table["tier"] = table["tier"].where(table["tier"].notna(), table["needed"])
    names = ["layer", "head", "kv_group", "label", "tier", "roles"]
    return table[[*names, "score", "margin", "total", "direct", "sink"]].reset_index(drop=True)


def near_misses(judged: pd.DataFrame, settings: Thresholds | None = None) -> pd.DataFrame:
    """For each head without a label the role it came closest to, and the rule that it fails.

    Closest is the one that fails the fewest rules; then the one with the highest margin.
    """
    settings = settings or Thresholds()
    labelled = pd.MultiIndex.from_frame(ranked(judged)[HEAD])
    rows = judged[~pd.MultiIndex.from_frame(judged[HEAD]).isin(labelled)]
    rows = rows.assign(lacks=rows["failed"].str.count(r"\S+"), behind=-rows["margin"])
    first = rows.sort_values([*HEAD, "lacks", "behind", "role"]).drop_duplicates(HEAD)
    records = cast("list[dict[str, Any]]", first.to_dict("records"))
    said = [lacking(row, settings) for row in records]
    first = first.assign(reasons=pd.Series(said, index=first.index, dtype=object))
    return first[[*HEAD, "role", "score", "margin", "reasons"]].reset_index(drop=True)
