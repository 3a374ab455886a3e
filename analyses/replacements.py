"""What takes the place of a head's z: zero, its mean over a disjoint reference set, or its twin's.

A mean is taken over the task's other half: items are split in two, and what replaces a head on the
items of one half is its mean over the other. Where at least `ALIGNED` items of that half have the
same template and length, the mean is taken position by position; else over tokens, the first
position (BOS, a sink) by itself. A reference set given by the user is always averaged over tokens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.models import Model
from rolecall.probes.base import Item

Kind = Literal["zero", "zero_folded", "mean", "resample"]
KINDS: tuple[Kind, ...] = ("zero", "zero_folded", "mean", "resample")

ALIGNED = 4
"""Fewer aligned items than this, and the mean is taken over tokens."""

Group = tuple[int, str, int]
"""Half, template and length."""


def require_kind(kind: str) -> Kind:
    """The kind, if there is one of that name.

    Raises:
        ValueError: There is none.
    """
    for known in KINDS:
        if kind == known:
            return known
    raise ValueError(f"a head is replaced by {', '.join(KINDS)}; not by {kind!r}")


def value_bias(model: Model, layer: int) -> Float[Tensor, "head d_head"] | None:
    """`b_V` of each query head, the constant part of z; None where there is none.

    Rows of attention sum to 1, so z is `b_V` plus what the pattern picks. Zero ablation deletes
    both; `zero_folded` leaves `b_V`, as zero ablation would with value biases folded into `b_O`.
    """
    bias = getattr(model.attention(layer), "b_V", None)
    if bias is None or not bool((bias != 0).any()):
        return None
    by_group = bias.detach().reshape(model.n_kv_heads, model.d_head)
    return by_group.repeat_interleave(model.n_heads // model.n_kv_heads, dim=0)


@dataclass(frozen=True)
class Halves:
    """Which half each item is in, and how the mean for it is taken.

    Attributes:
        half: Item → 0 or 1.
        group: Item → its half, template and length.
        aligned: The groups that are averaged position by position.
    """

    half: tuple[int, ...]
    group: tuple[Group, ...]
    aligned: frozenset[Group]

    def source(self, item: int) -> Group | int:
        """What the item's replacement is averaged over: an aligned group, or a whole half."""
        half, template, length = self.group[item]
        other = (1 - half, template, length)
        return other if other in self.aligned else 1 - half

    def described(self) -> str:
        """In words, for the table."""
        by_position = sum(not isinstance(self.source(i), int) for i in range(len(self.half)))
        if by_position == len(self.half):
            return "mean by position over the other half of the items"
        if not by_position:
            return "mean over tokens of the other half of the items"
        return "mean over the other half of the items, by position where aligned, else over tokens"


def halves(items: Sequence[Item]) -> Halves:
    """Items dealt out in turn, template by template, so that both halves have all templates.

    Raises:
        ValueError: There is one item only: nothing is left to take a mean over.
    """
    if len(items) < 2:
        raise ValueError("a mean needs a second item to be taken over; use more items, or zero")
    order = sorted(range(len(items)), key=lambda i: (items[i].template, len(items[i].token_ids), i))
    half = [0] * len(items)
    for turn, number in enumerate(order):
        half[number] = turn % 2
    group = tuple((half[i], it.template, len(it.token_ids)) for i, it in enumerate(items))
    counts = Counter(group)
    return Halves(tuple(half), group, frozenset(g for g, n in counts.items() if n >= ALIGNED))


@dataclass
class Means:
    """Running means of one layer's z.

    Attributes:
        plan: Which items are averaged how.
    """

    plan: Halves
    _sums: dict[Group | int, Tensor] = field(default_factory=dict)
    _counts: dict[Group | int, Tensor] = field(default_factory=lambda: defaultdict(_zero))

    def add(self, items: Sequence[int], z: Float[Tensor, "batch pos head d_head"]) -> None:
        """Takes in the z of these items."""
        for row, item in enumerate(items):
            group = self.plan.group[item]
            self._take(group[0], token_sums(z[row]), token_counts(z.shape[1]))
            if group in self.plan.aligned:
                self._take(group, z[row].double(), torch.tensor(1.0))

    def _take(self, key: Group | int, value: Tensor, count: Tensor) -> None:
        self._sums[key] = self._sums[key] + value if key in self._sums else value
        self._counts[key] = self._counts[key] + count

    def values(
        self, items: Sequence[int], like: Float[Tensor, "batch pos head d_head"]
    ) -> Float[Tensor, "batch pos head d_head"]:
        """What replaces the z of these items."""
        rows = []
        for item in items:
            source = self.plan.source(item)
            if isinstance(source, int):
                mean = token_means(self._sums[source], self._counts[source])
                rows.append(spread(mean, like.shape[1]))
            else:
                rows.append(self._sums[source] / self._counts[source])
        return torch.stack(rows).to(like)


def _zero() -> Tensor:
    return torch.tensor(0.0)


def token_sums(z: Float[Tensor, "pos head d_head"]) -> Float[Tensor, "two head d_head"]:
    """The sum over the first position, and over all others, in float64."""
    return torch.stack([z[0].double(), z[1:].double().sum(dim=0)])


def token_counts(length: int) -> Float[Tensor, " two"]:
    """How many positions each of the two sums holds."""
    return torch.tensor([1.0, length - 1.0])


def token_means(
    sums: Float[Tensor, "two head d_head"], counts: Float[Tensor, " two"]
) -> Float[Tensor, "two head d_head"]:
    """The first position's mean, and the mean over all other tokens."""
    return sums / rearrange(counts.clamp_min(1.0).to(sums), "two -> two 1 1")


def spread(
    means: Float[Tensor, "two head d_head"], length: int
) -> Float[Tensor, "pos head d_head"]:
    """Those two means over a sequence of this length."""
    which = torch.ones(length, dtype=torch.long, device=means.device)
    which[0] = 0
    return means[which]
