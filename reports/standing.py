"""How labelled heads stand with the task of their role, counted and in words.

A tier C is a pattern alone. That no effect was detected, that none was looked for, and that the
pattern is not selective are three things, and each is said as what it is.
"""

from __future__ import annotations

import pandas as pd

from rolecall.analyses.labels import NO_LABEL
from rolecall.analyses.number_text import number
from rolecall.analyses.tiers import Thresholds

STANDINGS = {
    "A": ("matters for its role", "matter for their role", "above all (A)"),
    "B": ("matters, but not for its role", "matter, but not for their role", "above all (B)"),
    "undetected": ("shows the pattern", "show the pattern", "without a detected effect (C)"),
    "untested": ("shows the pattern and was", "show the pattern and were", "not tested (C)"),
    "unselective": ("has an effect", "have an effect", "but may look at rivals too (C)"),
    "E": ("works against its role", "work against their role", "(E)"),
}
"""Standing, how it begins for one head and for several, and how it ends."""

TIER_NOTES = {
    "A": "pattern and effect on own task, specific",
    "B": "effect not specific, or weights against it",
    "C": "pattern, effect not detected or not tested (the reasons say which)",
    "D": "effect without the pattern",
    "E": "works against its role",
}
"""What each tier says of a head, short, for a line under a table on the terminal."""


def standing(tier: str, effect: str | None) -> str:
    """One of `STANDINGS`, from a labelled head's tier and what removing it did (`tiers.Effect`).

    >>> standing("C", "unknown"), standing("C", "nothing"), standing("A", "helps")
    ('untested', 'undetected', 'A')
    """
    if tier != "C":
        return tier
    return {"unknown": "untested", "helps": "unselective"}.get(effect or "unknown", "undetected")


def standings(heads: pd.DataFrame, verdicts: pd.DataFrame) -> dict[str, int]:
    """Standing → how many labelled heads, by the role that each is named after.

    Args:
        heads: layer, head, label and tier.
        verdicts: role, layer, head and effect.
    """
    named = heads[heads["label"] != NO_LABEL][["layer", "head", "label", "tier"]]
    effects = verdicts[["role", "layer", "head", "effect"]].rename(columns={"role": "label"})
    rows = named.merge(effects, on=["label", "layer", "head"], how="left")
    rows["effect"] = rows["effect"].astype(object).where(rows["effect"].notna(), None)
    found = [standing(tier, effect) for tier, effect in rows[["tier", "effect"]].to_numpy()]
    return {name: found.count(name) for name in STANDINGS if name in found}


def counted(found: dict[str, int]) -> str:
    """The counts as a list in a sentence.

    >>> counted({"B": 1, "untested": 2})
    '1 matters, but not for its role above all (B) and 2 show the pattern and were not tested (C)'
    """
    said = [f"{n} {STANDINGS[name][n != 1]} {STANDINGS[name][2]}" for name, n in found.items()]
    *most, last = said
    return f"{', '.join(most)}{' and ' * bool(most)}{last}"


def tier_words(asked: Thresholds) -> dict[str, str]:
    """Tier → what it says of a head, for a legend."""
    ratio = number(asked.min_ratio, digits=1).removesuffix(".0")
    return {
        "A": "the pattern is there, and removing the head hurts this role's own task, surely more "
        f"than other tasks and unrelated text, and more than {ratio} × as much",
        "B": "pattern and effect, but the effect is not that much larger than elsewhere, or the "
        "head's weights speak against the role",
        "C": "the pattern alone: no effect was detected, or none was tested, or rivals may draw "
        "the head as well; its reasons say which",
        "D": "effect without the pattern: a helper, not a head of this role",
        "E": "the opposite sign: it works against the role",
    }
