"""Copies of planted heads that look where the original looks and matter in another way.

What a head looks at does not say whether the model is better for it: one copy writes against the
answer, one writes nothing, one writes for every role's answer at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from rolecall.analyses.planted_heads import Head
from rolecall.analyses.planted_roles import SIMPLE, Maker
from rolecall.analyses.planted_space import Space
from rolecall.analyses.planted_syntax import SYNTAX
from rolecall.analyses.planted_weights import Geometry

Seat = tuple[int, int]
"""Layer and head."""
COPIES = 3
"""Most copies in one model."""
GAINS: Mapping[str, float] = {"against": -0.5, "mute": 0.0, "broad": 1.0}
"""Kind of copy → what it adds to a logit difference, where the original adds 1."""
BROAD = "broad previous_token"
"""The copy that votes on every role's answer, so that it serves other tasks as much as its own."""
COPIED = (
    *("previous_token", "delimiter", "bracket", "subject_verb", "verb_object", "determiner"),
    *("auxiliary", "coreference", "rare_token", "duplicate_token", "induction"),
)
"""Heads of roles with a task: only for these it shows what a copy does."""


def original(name: str) -> str:
    """The name of the head that this one is a copy of; its own where it is none.

    Example:
        >>> original("against bracket"), original("bracket")
        ('bracket', 'bracket')
    """
    return name.partition(" ")[2] or name


def gain_of(name: str) -> float:
    """What a head of this name adds to a logit difference.

    Example:
        >>> gain_of("against bracket"), gain_of("bracket")
        (-0.5, 1.0)
    """
    return GAINS.get(name.partition(" ")[0], 1.0)


def copied(name: str) -> Maker:
    """The maker of the original under the copy's name."""
    # Without the note that induction heads read, or they would go on without the original.
    source = "previous_token_only" if original(name) == "previous_token" else original(name)
    make = {**SIMPLE, **SYNTAX}[source]

    def made(space: Space, geometry: Geometry) -> Head:
        return replace(make(space, geometry), name=name)

    return made


VARIANTS: Mapping[str, Maker] = {
    name: copied(name)
    for name in (*(f"{kind} {head}" for kind in ("against", "mute") for head in COPIED), BROAD)
}
"""Every copy by name."""


def copies(names: list[str], rng: Random) -> list[str]:
    """Names of copies of heads among these: one against its role, one mute, at times a broad one.

    None is a copy of the same head as another, so that every task can still be done.
    """
    able = [name for name in names if name in COPIED]
    broad = [BROAD] * (original(BROAD) in able and rng.random() < 0.5)
    free = [name for name in able if not (broad and name == original(BROAD))]
    drawn = rng.sample(free, min(2, len(free)))
    return [
        f"{kind} {name}" for kind, name in zip(("against", "mute"), drawn, strict=False)
    ] + broad


def speaks_for(seats: Mapping[Seat, str]) -> dict[Seat, Seat]:
    """Copy → its original: they vote on one answer."""
    at = {name: seat for seat, name in seats.items()}
    return {seat: at[original(name)] for seat, name in seats.items() if original(name) != name}


def also_for(seats: Mapping[Seat, str]) -> dict[Seat, tuple[Seat, ...]]:
    """The broad head → every head of another role with a task: it votes on their answers too."""
    asked = tuple(s for s, name in seats.items() if name in COPIED and name != original(BROAD))
    return {seat: asked for seat, name in seats.items() if name == BROAD}
