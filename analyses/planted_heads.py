"""What a planted head looks for and what it writes, before it has any weights.

A head's attention logit is a sum of *matches* (a reading of the query times a reading of the key),
an *offset* (a peak at one distance) and a *recency* (so many nats a step). What it writes is a sum
of *moves* from one axis of the attended token to an axis of the query. `planted_weights.py` turns
these into W_Q, W_K, W_V and W_O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.planted_space import Space

SHARP = 16.0
"""Nats by which an ideal head prefers its target to the next best key."""


@dataclass(frozen=True)
class Match:
    """A term `weight × (query · key)` of an attention logit, in nats.

    Attributes:
        query: What is read at the query, one column a feature.
        key: What is read at the key, the same number of columns.
        weight: Nats for a product of 1.
        rest: Whether it is only the pull of the first token on a head without a target.
    """

    query: Float[Tensor, "d_model rank"]
    key: Float[Tensor, "d_model rank"]
    weight: float
    rest: bool = False


@dataclass(frozen=True)
class Move:
    """What is copied from the attended token to the query, `gain` times."""

    source: Float[Tensor, "d_model rank"]
    target: Float[Tensor, "d_model rank"]
    gain: float = 1.0


@dataclass(frozen=True)
class Head:
    """A head by its intentions.

    Attributes:
        name: The role or impostor it plays.
        role: The role a right classifier gives it, or None for impostors, helpers and idle heads.
        matches: Terms of its attention logit.
        offset: Distance query − key at which it peaks, or None.
        shun: Nats by which its own position is less than it would be.
        recency: Nats by which each step nearer to the query is preferred.
        moves: What it writes.
        layer: The layers it may stand in, as an offset from the first: 0 reads embeddings only.
    """

    name: str
    role: str | None = None
    matches: tuple[Match, ...] = ()
    offset: int | None = None
    shun: float = 0.0
    recency: float = 0.0
    moves: tuple[Move, ...] = ()
    layer: int = 0

    @property
    def rests(self) -> bool:
        """Whether it looks at the first token where it finds no target (see `resting`)."""
        return any(match.rest for match in self.matches)

    def writing(self, *moves: Move) -> Head:
        """The same head that also writes these."""
        return replace(self, moves=self.moves + moves)


def resting(space: Space, nats: float) -> Match:
    """The pull of the first token (BOS), so that a head without a target rests there."""
    return Match(space.constant, space["bos"], nats, rest=True)
