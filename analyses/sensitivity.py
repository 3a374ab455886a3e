"""How many labels hang on a threshold: each one moved by a quarter, up and down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from rolecall.analyses.own_task import HEAD
from rolecall.analyses.tiers import Thresholds

SWEPT = {
    "alpha": "error rate",
    "score_scale": "score needed, every role's",
    "min_margin": "margin",
    "min_consistency": "consistency",
    "dormant": "rest of a sleeping head",
    "min_rest": "rest of a sink",
    "min_ratio": "own effect against others",
    "negligible": "negligible effect",
    "min_stability": "stability",
}
SHARES = ("min_consistency", "dormant", "min_rest", "min_stability")
STEP = 0.25


def sweep(heads: Callable[[Thresholds], pd.DataFrame], at: Thresholds) -> pd.DataFrame:
    """One row a threshold and direction: its value, and how many heads change label or tier.

    Args:
        heads: The table of heads (heads.csv) under some thresholds.
        at: The thresholds from which each is moved, one at a time.

    Columns: `threshold`, `value`, `moved_to`, `flips` (another label), `gained` and `lost` (from
    and to no label), `tier_changes` (the same label, another tier).
    """
    before = heads(at).set_index(HEAD)
    rows = []
    for name in SWEPT:
        for factor in (1 - STEP, 1 + STEP):
            value = getattr(at, name) * factor
            value = min(value, 1.0) if name in SHARES else value
            after = heads(replace(at, **{name: value})).set_index(HEAD).loc[before.index]
            rows.append((name, getattr(at, name), value, *_changes(before, after)))
    columns = ["threshold", "value", "moved_to", "flips", "gained", "lost", "tier_changes"]
    return pd.DataFrame(rows, columns=columns)


def _changes(before: pd.DataFrame, after: pd.DataFrame) -> tuple[int, int, int, int]:
    had, has = before["roles"].notna(), after["roles"].notna()
    flips = before["label"] != after["label"]
    tiers = ~flips & had & (before["tier"].fillna("") != after["tier"].fillna(""))
    return int(flips.sum()), int((~had & has).sum()), int((had & ~has).sum()), int(tiers.sum())
