"""Heads by intention turned into weights: W_Q, W_K, W_V and W_O of one KV group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.planted_heads import SHARP, Head, Match
from rolecall.analyses.planted_space import Space, grounded


@dataclass(frozen=True)
class Rotary:
    """Where the coordinates of a rotary head lie: fast pairs tell distance, slow ones content.

    Attributes:
        d_head: Width of a head; pair `j` is coordinates `j` and `j + d_head / 2`.
        base: The `rope_theta` of the model.
    """

    d_head: int
    base: float

    @property
    def angles(self) -> Float[Tensor, " half"]:
        """Radians a step by which each pair turns."""
        return self.base ** (-torch.arange(0, self.d_head, 2) / self.d_head)

    @property
    def fast(self) -> tuple[int, ...]:
        """Pairs that tell neighbouring distances apart."""
        return tuple(j for j, angle in enumerate(self.angles) if angle > 0.1)

    @property
    def gentle(self) -> int:
        """The pair whose sine is a straight line over a few hundred steps."""
        return int((self.angles - 0.003).abs().argmin())

    @property
    def still(self) -> tuple[int, ...]:
        """Coordinates that hardly turn."""
        pairs = [j for j, angle in enumerate(self.angles) if angle < 3e-4]
        return tuple(pairs) + tuple(j + self.d_head // 2 for j in pairs)


@dataclass(frozen=True)
class Learned:
    """Learned positions: angle codes on the axis `position`, a ramp on the axis `ramp`.

    Attributes:
        d_head: Width of a head.
        angles: Radians a step of each pair of the code.
        n_ctx: Number of positions; the ramp rises by `1 / n_ctx` a step.
    """

    d_head: int
    angles: Float[Tensor, " frequency"]
    n_ctx: int

    @property
    def still(self) -> tuple[int, ...]:
        """Coordinates free for matches: all."""
        return tuple(range(self.d_head))

    def code(self, positions: Float[Tensor, " position"]) -> Float[Tensor, "position rank"]:
        """Unit codes of positions, cosines before sines."""
        turned = positions[:, None] * self.angles
        return torch.cat([turned.cos(), turned.sin()], -1) / math.sqrt(len(self.angles))

    def shift(self, distance: int) -> Float[Tensor, "rank rank"]:
        """Matrix that takes the code of position p (a row) to that of `p − distance`."""
        cos, sin = (distance * self.angles).cos().diag(), (distance * self.angles).sin().diag()
        return torch.cat([torch.cat([cos, -sin], 1), torch.cat([sin, cos], 1)], 0)


Geometry = Rotary | Learned


def kernel(geometry: Geometry) -> Float[Tensor, " distance"]:
    """How strongly an offset head pulls at each distance from its peak, 1 at the peak."""
    if isinstance(geometry, Rotary):
        angles, reach = geometry.angles[list(geometry.fast)], 96
    else:
        angles, reach = geometry.angles, geometry.n_ctx
    return (torch.arange(reach)[:, None] * angles).cos().mean(-1)


def offset_nats(geometry: Geometry) -> float:
    """Height of an offset's peak so that it stands `SHARP` nats over every other distance."""
    return 2 * SHARP / (1 - kernel(geometry)[1:].max().item())


def peaks(head: Head, geometry: Geometry) -> tuple[tuple[int, float], ...]:
    """Distances at which the head is drawn (nats above zero) or repelled (below)."""
    drawn = () if head.offset is None else ((head.offset, offset_nats(geometry)),)
    return (*drawn, (0, -head.shun)) if head.shun else drawn


@dataclass(frozen=True)
class Group:
    """Weights of the query heads that share one key and value.

    Attributes:
        W_Q: One matrix a query head.
        W_K: The shared key.
        W_V: The shared value.
        W_O: One matrix a query head.
    """

    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "d_model d_head"]
    W_V: Float[Tensor, "d_model d_head"]
    W_O: Float[Tensor, "head d_head d_model"]


def group(heads: Sequence[Head], space: Space, geometry: Geometry) -> Group:
    """The weights of heads that share one KV group, each on coordinates of its own.

    Raises:
        ValueError: The heads need more coordinates than a head has.
    """
    d_model, d_head = space.d_model, geometry.d_head
    W_Q, W_O = torch.zeros(len(heads), d_model, d_head), torch.zeros(len(heads), d_head, d_model)
    W_K, W_V = torch.zeros(d_model, d_head), torch.zeros(d_model, d_head)
    free, room = list(geometry.still), list(range(d_head))
    for i, head in enumerate(heads):
        for match in matches(head, space, geometry):
            at, free = take(free, match.key.shape[1], head)
            root = math.sqrt(abs(match.weight))
            W_Q[i][:, at] = math.copysign(root, match.weight) * grounded(match.query, space)
            W_K[:, at] = root * grounded(match.key, space)
        for move in head.moves:
            at, room = take(room, move.source.shape[1], head)
            W_V[:, at] = grounded(move.source, space)
            W_O[i][at] = move.gain * move.target.T
    if isinstance(geometry, Rotary):
        for i, head in enumerate(heads):
            turn(head, space, geometry, W_Q[i], W_K)
    return Group(W_Q * math.sqrt(d_head), W_K, W_V, W_O)


def take(free: list[int], rank: int, head: Head) -> tuple[list[int], list[int]]:
    """The next `rank` free coordinates and the rest.

    Raises:
        ValueError: There are not so many.
    """
    if rank > len(free):
        raise ValueError(f"head {head.name} needs {rank} coordinates and {len(free)} are free")
    return free[:rank], free[rank:]


def matches(head: Head, space: Space, geometry: Geometry) -> tuple[Match, ...]:
    """The head's matches, with offset and recency among them where positions are learned."""
    if isinstance(geometry, Rotary):
        return head.matches
    extra = []
    for distance, nats in peaks(head, geometry):
        query = space["position"] @ geometry.shift(distance)
        extra.append(Match(query, space["position"], nats))
    if head.recency:
        extra.append(Match(space.constant, space["ramp"], head.recency * geometry.n_ctx))
    return (*head.matches, *extra)


def turn(
    head: Head,
    space: Space,
    geometry: Rotary,
    W_Q: Float[Tensor, "d_model d_head"],
    W_K: Float[Tensor, "d_model d_head"],
) -> None:
    """Writes offset and recency of a rotary head into its query and the shared key, in place."""
    half, constant = geometry.d_head // 2, grounded(space.constant, space)[:, 0]
    # The first token is nowhere, so that only its own pull decides how much it draws.
    elsewhere = grounded(space.constant - space["bos"], space)
    # Queries and keys are of like size, so that noise on either does the same.
    fast, gentle = 4.0, 40.0
    W_K[:, list(geometry.fast)] = fast * elsewhere
    W_K[:, [geometry.gentle]] = gentle * elsewhere
    for distance, nats in peaks(head, geometry):
        size = nats / len(geometry.fast) / fast
        for j in geometry.fast:
            angle = distance * geometry.angles[j]
            W_Q[:, j] += size * angle.cos() * constant
            W_Q[:, j + half] -= size * angle.sin() * constant
    if head.recency:
        slope = head.recency / geometry.angles[geometry.gentle] / gentle
        W_Q[:, geometry.gentle + half] += slope * constant
