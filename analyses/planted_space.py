"""The residual stream of a planted model: named axes, so that weights can be written in words.

Every direction that a planted head reads or writes has a name (`noun`, `identity`, `vote` …) and
its own coordinates. Three of them make every normalisation the identity, nearly: `anchor` is the
same large number at every position, so that what heads write hardly changes the norm; `filler`
brings all embeddings to one length; `ground` is always zero and takes up the mean that LayerNorm
subtracts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

ANCHOR = 64.0
"""What the anchor axis holds at every position; embeddings have norm `sqrt(ANCHOR² + MARKED)`."""
MARKED = 14.0
"""Squared norm of everything an embedding holds beside the anchor, filler included."""


@dataclass(frozen=True)
class Space:
    """Named coordinates of the residual stream.

    Attributes:
        d_model: Width of the stream.
        axes: Name → its coordinates, disjoint.
    """

    d_model: int
    axes: Mapping[str, tuple[int, ...]]

    def __getitem__(self, name: str) -> Float[Tensor, "d_model rank"]:
        """The directions of one name as columns, orthonormal.

        Raises:
            ValueError: No axis of that name.
        """
        if name not in self.axes:
            raise ValueError(f"no axis {name!r} in this space; it has {', '.join(self.axes)}")
        return torch.eye(self.d_model)[:, list(self.axes[name])]

    @property
    def constant(self) -> Float[Tensor, "d_model 1"]:
        """A direction that reads 1 at every position."""
        return self["anchor"] / ANCHOR


def lay_out(ranks: Mapping[str, int], d_model: int, seed: int) -> Space:
    """A space with the named axes on shuffled coordinates.

    Raises:
        ValueError: The axes need more than `d_model` coordinates.
    """
    if (needed := sum(ranks.values())) > d_model:
        raise ValueError(f"{needed} axes do not fit a width of {d_model}; use d_model={needed}")
    order = torch.randperm(d_model, generator=torch.Generator().manual_seed(seed)).tolist()
    axes = {}
    for name, rank in ranks.items():
        axes[name] = tuple(order[:rank])
        order = order[rank:]
    return Space(d_model, axes)


def codes(n: int, d_code: int, seed: int) -> Float[Tensor, "n d_code"]:
    """Random unit vectors, one a row, that stand for identities."""
    rows = torch.randn(n, d_code, generator=torch.Generator().manual_seed(seed))
    return rows / rows.norm(dim=-1, keepdim=True)


def grounded(reading: Float[Tensor, "d_model rank"], space: Space) -> Float[Tensor, "d_model rank"]:
    """The reading made blind to a mean subtracted from all coordinates: its columns sum to zero."""
    return reading - space["ground"] @ reading.sum(0, keepdim=True)


def embedded(
    features: Mapping[str, Float[Tensor, "rows rank"]], space: Space, *, marked: float, filler: str
) -> Float[Tensor, "rows d_model"]:
    """Rows of an embedding table that hold the features, all of the same norm.

    Args:
        features: Axis name → what each row holds there.
        space: The axes.
        marked: Squared norm of features and filler together.
        filler: The axis that takes what the features leave of it.

    Raises:
        ValueError: Some row's features are longer than `marked` allows.
    """
    held = sum(rows @ space[name].T for name, rows in features.items())
    assert isinstance(held, Tensor)
    left = marked - held.square().sum(-1)
    if (left < 0).any():
        raise ValueError(f"features of squared norm {marked - left.min():.2f} exceed {marked}")
    return held + left.sqrt()[:, None] @ space[filler].T


def scale(space: Space, *, centred: bool) -> float:
    """The gain that makes a normalisation of this stream the identity.

    LayerNorm (`centred`) divides by the standard deviation, RMSNorm by the root mean square; both
    are nearly the same number for every position, set by the anchor.
    """
    square = (ANCHOR**2 + MARKED) / space.d_model
    return math.sqrt(square - (ANCHOR / space.d_model) ** 2 * centred)
