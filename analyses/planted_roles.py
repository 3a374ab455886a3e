"""The planted heads: one for each role, and beside it the impostor that a naive score would label.

Each is a function of the space; what it looks for is written in the names of `planted_words.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.planted_heads import SHARP, Head, Match, Move, resting
from rolecall.analyses.planted_space import Space
from rolecall.analyses.planted_weights import Geometry, offset_nats
from rolecall.analyses.planted_words import BRACKETS

Maker = Callable[[Space, Geometry], Head]
STEP = 6.0
"""Nats by which a head that looks for the nearest of a kind prefers each step."""
REACH = 40
"""Longest distance, in tokens, over which such a head must still prefer its kind to the rest."""
PULL = STEP * REACH
OPEN = tuple(f"open{kind}" for kind in range(len(BRACKETS)))
CLOSE = tuple(f"close{kind}" for kind in range(len(BRACKETS)))


def total(space: Space, *names: str) -> Float[Tensor, "d_model 1"]:
    """A direction that reads the sum of several one-dimensional axes."""
    return sum((space[name] for name in names[1:]), space[names[0]])


def at_offset(name: str, distance: int, role: str | None) -> Maker:
    """A head that looks a fixed number of tokens back (forward if negative)."""

    def make(space: Space, geometry: Geometry) -> Head:
        rest = resting(space, offset_nats(geometry) - SHARP)
        return Head(name, role, (rest,), offset=distance)

    return make


def previous_token(space: Space, geometry: Geometry) -> Head:
    """Looks one token back and notes which it was (induction heads read that)."""
    head = at_offset("previous_token", 1, "previous_token")(space, geometry)
    return head.writing(Move(space["identity"], space["before"]))


def first_token(space: Space, geometry: Geometry) -> Head:
    """Looks at the first token, whatever stands there."""
    return Head("first_token", "first_token", (resting(space, 2 * SHARP),))


def any_of(name: str, axis: str, role: str | None) -> Maker:
    """A head that looks at all tokens of a kind alike."""

    def make(space: Space, geometry: Geometry) -> Head:
        return Head(
            name,
            role,
            (Match(space.constant, space[axis], 2 * SHARP), resting(space, SHARP)),
        )

    return make


def balance(space: Space, geometry: Geometry) -> Head:
    """A helper: notes (brackets open here − 1) / (brackets so far + 1), 0 inside just one."""
    opening, closing = total(space, *OPEN), total(space, *CLOSE)
    seen = Match(space.constant, space["bos"] + opening + closing, 1.25 * SHARP, rest=True)
    return Head("balance", None, (seen,)).writing(
        Move(opening - closing - space["bos"], space["depth"])
    )


def bracket(space: Space, geometry: Geometry) -> Head:
    """Looks from a closing mark to the last opening mark of its kind that is not nested."""
    pairs = [Match(space[c], space[o], 10 * PULL) for o, c in zip(OPEN, CLOSE, strict=True)]
    nested = Match(total(space, *CLOSE), space["depth"], -5 * PULL)
    matches = (*pairs, nested, resting(space, 1.5 * PULL))
    # A pair that is closed already stands further back than one within is deep: it needs the more.
    return Head("bracket", "bracket", matches, recency=2.5 * STEP)


def duplicate_token(space: Space, geometry: Geometry) -> Head:
    """Looks at earlier copies of the same token, never at itself."""
    same = Match(space["identity"], space["identity"], 38 * SHARP)
    rest = resting(space, 32 * SHARP)
    return Head("duplicate_token", "duplicate_token", (same, rest), shun=8 * SHARP)


def induction(space: Space, geometry: Geometry) -> Head:
    """Looks at what followed earlier copies of this token, however long ago, and copies it."""
    follows = Match(space["identity"], space["before"], 8 * SHARP)
    head = Head("induction", "induction", (follows, resting(space, 7 * SHARP)), layer=1)
    return head.writing(Move(space["identity"], space["copied"]))


def rare_token(space: Space, geometry: Geometry) -> Head:
    """Looks at the rarest word so far."""
    rarest = Match(space.constant, space["rarity"], 40 * SHARP)
    return Head("rare_token", "rare_token", (rarest, resting(space, 10 * SHARP)))


def recent_word(space: Space, geometry: Geometry) -> Head:
    """The impostor of rare_token: looks at the last content word."""
    words = total(space, "noun", "name", "verb", "adjective", "adverb", "rare")
    found = Match(space.constant, words, 2 * PULL)
    return Head("recent_word", None, (found, resting(space, PULL)), recency=STEP)


def nearest(name: str, query: str, key: str) -> Maker:
    """A head that looks from words of one kind to the nearest of another."""

    def make(space: Space, geometry: Geometry) -> Head:
        found = Match(space[query], space[key], 3 * PULL)
        return Head(name, None, (found, resting(space, 2 * PULL)), recency=STEP)

    return make


def primary(space: Space, geometry: Geometry) -> Head:
    """A previous-token head that leaves a note where it has found something."""
    head = at_offset("primary", 1, "previous_token")(space, geometry)
    return head.writing(Move(space.constant - space["bos"], space["present"]))


def backup(space: Space, geometry: Geometry) -> Head:
    """Does the primary head's work where its note is missing, and rests where it is there."""
    head = at_offset("backup", 1, None)(space, geometry)
    hushed = Match(space["present"], space["bos"], 4 * SHARP)
    return replace(head, matches=(*head.matches, hushed), layer=1)


def uniform(space: Space, geometry: Geometry) -> Head:
    """Looks everywhere alike."""
    return Head("uniform")


def at_random(seed: int) -> Maker:
    """A head that compares random features of words with each other."""

    def make(space: Space, geometry: Geometry) -> Head:
        rank = len(space.axes["identity"])
        draw = torch.Generator().manual_seed(seed)
        query, key = torch.randn(2, rank, 4, generator=draw)
        compared = Match(space["identity"] @ query, space["identity"] @ key, 3.0)
        return Head("random", None, (compared,))

    return make


SIMPLE: Mapping[str, Maker] = {
    "previous_token": previous_token,
    "previous_token_only": at_offset("previous_token_only", 1, "previous_token"),
    "next_token": at_offset("next_token", -1, "next_token"),
    "current_token": at_offset("current_token", 0, "current_token"),
    "first_token": first_token,
    "duplicate_token": duplicate_token,
    "induction": induction,
    "delimiter": any_of("delimiter", "delimiter", "delimiter"),
    "balance": balance,
    "bracket": bracket,
    "rare_token": rare_token,
    "fixed_offset": at_offset("fixed_offset", 9, None),
    "frequent": any_of("frequent", "frequent", None),
    "recent_word": recent_word,
    "uniform": uniform,
    "primary": primary,
    "backup": backup,
    **{f"random{seed}": at_random(seed) for seed in range(4)},
}
