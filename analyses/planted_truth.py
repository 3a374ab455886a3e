"""Which tier is right for each head and role of a planted model, by construction.

What removing a head costs each task is worked out from the design alone: who votes for the task's
answer, and who cannot work without whom. The tiers follow as design §5 defines them; no score, no
effect and no rule of the verdict comes in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rolecall.analyses.planted import HELPERS, Planted, Seat
from rolecall.analyses.planted_tasks import PROBES, asked

Tiers = tuple[str, ...]
"""The tiers that are right, `none` for none; several where the construction leaves it open."""
NONE: Tiers = ("none",)
RATIO = 2.0
"""A is for heads that cost their own task so many times what they cost others, B for the rest."""
SLACK = 1.2
"""Factor around `RATIO` within which the noise on the weights may decide."""
SOMETIMES = ("balance", "governed", "aside")
"""Helpers that some sentences need and others do not: how many do is up to the sentences."""


def right_tiers(planted: Planted) -> dict[tuple[Seat, str], Tiers]:
    """Seat and role → the tiers that are right; for a pair that is not there, `NONE`."""
    found: dict[tuple[Seat, str], Tiers] = {}
    for seat, head in planted.heads.items():
        costs = {role: cost(planted, seat, role) for role in asked(planted)}
        needed: Tiers = ("D", "none") if head.name in SOMETIMES else ("D",)
        found |= {(seat, role): needed for role, share in costs.items() if share > 0}
        if head.role is not None:
            found[seat, head.role] = own_tiers(head.role, costs)
    return found


def spelled(tiers: Tiers) -> str:
    """The tiers in words.

    Example:
        >>> spelled(("D", "none"))
        'D or none'
    """
    return " or ".join(tiers)


def own_tiers(role: str, costs: Mapping[str, float]) -> Tiers:
    """The right tiers of a head that looks where its role says.

    Args:
        role: The head's role.
        costs: Role → what removing the head costs that role's task, of the roles with a task here.

    Example:
        >>> own_tiers("induction", {"induction": 1.0, "bracket": 0.0})
        ('A',)
        >>> own_tiers("induction", {"induction": 1.0, "bracket": 0.8})
        ('B',)
        >>> own_tiers("induction", {"induction": -0.5, "bracket": 0.0})
        ('E',)
    """
    own = costs.get(role, 0.0)
    if own == 0:
        return ("C",)
    if own < 0:
        return ("E",)
    family = PROBES[role].family
    rest = [abs(share) for other, share in costs.items() if PROBES[other].family != family]
    # Where there is no other task, nothing shows that it matters more to its own.
    others = RATIO * sum(rest) / len(rest) if rest else math.inf
    if own > SLACK * others:
        return ("A",)
    return ("B",) if own < others / SLACK else ("A", "B")


def cost(planted: Planted, seat: Seat, role: str) -> float:
    """What zeroing a head costs a role's task, as a share of the task's logit difference."""
    design, answer = planted.design, asked(planted)[role]
    votes = {other: design.gain(other) for other in planted.heads if answer in design.voices(other)}
    # A head goes without its vote when it is gone or when the head that helps it is.
    name = planted.heads[seat].name
    lost = [
        vote
        for other, vote in votes.items()
        if other == seat or HELPERS.get(planted.heads[other].name) == name
    ]
    return sum(lost) / sum(votes.values())
