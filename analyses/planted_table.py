"""Tables of what was said of planted and random models, counted from one row a head and role."""

from __future__ import annotations

from typing import cast

import pandas as pd
from statsmodels.stats.proportion import proportion_confint

ELSEWHERE = "no tier (all others)"
FAKES = "no tier (impostors)"
RANDOM = "no label (random models)"


def tabulate(planted: pd.DataFrame, random: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row a role from outcomes of planted models and, if given, of random ones.

    Returns:
        Columns role, heads (planted for it), found, missed, wrong (other heads labelled), recall,
        recall_low, precision, precision_low (Wilson, 95 %; null without heads or labels),
        impostors (made to look like it), impostors_labelled; where tiers were given, tiers (heads
        that must have one, for the pattern or for the effect alone, and impostors, that must have
        none), tiers_right (of these) and tiers_wrong (of all heads); for random models
        random_heads, random_labels.
    """
    table = pd.DataFrame([role_row(role, rows) for role, rows in planted.groupby("role")])
    if random is not None:
        counts = random.groupby("role")["labelled"].agg(random_heads="size", random_labels="sum")
        table = table.merge(counts, left_on="role", right_index=True, how="left")
    return table


def role_row(role: object, rows: pd.DataFrame) -> dict[str, object]:
    """A role's counts and rates."""
    found = int((rows["true"] & rows["labelled"]).sum())
    heads, labels = int(rows["true"].sum()), int(rows["labelled"].sum())
    return {
        "role": role,
        "heads": heads,
        "found": found,
        "missed": heads - found,
        "wrong": labels - found,
        **rate("recall", found, heads),
        **rate("precision", found, labels),
        "impostors": int(rows["impostor"].sum()),
        "impostors_labelled": int((rows["impostor"] & rows["labelled"]).sum()),
        **(tier_counts(rows) if "tier" in rows else {}),
    }


def tier_counts(rows: pd.DataFrame) -> dict[str, int]:
    """How many tiers are known, and how many of them are right."""
    known = rows["right"].ne("none") | rows["impostor"]
    return {
        "tiers": int(known.sum()),
        "tiers_right": int((known & rows["tier_right"]).sum()),
        "tiers_wrong": int((~rows["tier_right"]).sum()),
    }


def rate(name: str, hits: int, tries: int) -> dict[str, float | None]:
    """A share and the lower end of its 95 % Wilson interval; None for no tries."""
    if not tries:
        return {name: None, f"{name}_low": None}
    low, _ = proportion_confint(hits, tries, method="wilson")
    return {name: hits / tries, f"{name}_low": float(cast("float", low))}


def by_truth(planted: pd.DataFrame, random: pd.DataFrame) -> pd.DataFrame:
    """One row for each thing that can be true, over all roles: a tier, none, a random model.

    Returns:
        Columns truth, cases (heads × roles; for random models, models), right.
    """
    truth = planted["right"].where(
        planted["right"].ne("none"), planted["impostor"].map({True: FAKES, False: ELSEWHERE})
    )
    groups = planted["tier_right"].groupby(truth).agg(cases="size", right="sum")
    models = random.groupby("model")["labelled"].any()
    groups.loc[RANDOM] = [len(models), int((~models).sum())]
    return groups.rename_axis("truth").reset_index()
