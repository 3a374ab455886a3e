"""Where a head takes in the residual stream: the modules that make queries, keys and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from rolecall.analyses.models import Model

Entry = Literal["q", "k", "v"]
ENTRIES: tuple[Entry, ...] = ("q", "k", "v")

_APART: Mapping[Entry, tuple[str, ...]] = {
    "q": ("q_proj", "query", "q_lin"),
    "k": ("k_proj", "key", "k_lin"),
    "v": ("v_proj", "value", "v_lin"),
}
_IN_ROW = ("c_attn", "Wqkv", "qkv_proj")
"""One map makes all queries, then all keys, then all values (GPT-2, MPT, Phi-3)."""

Put = Callable[[Tensor, Tensor], Tensor]
"""From a module's own output and another's to its own with one of the three taken over."""


def entrance(attention: nn.Module, entry: Entry, model: Model) -> tuple[nn.Module, Put]:
    """The module that makes queries, keys or values, and how to put another's into its output.

    Raises:
        ValueError: The attention keeps them in a way that is not known.
    """
    children = dict(attention.named_children())
    for name in _APART[entry]:
        if name in children:
            return children[name], lambda _own, other: other
    number = ENTRIES.index(entry)
    for name in _IN_ROW:
        if name in children:
            return children[name], _in_row(number, model)
    if "query_key_value" in children and model.n_heads == model.n_kv_heads:
        return children["query_key_value"], _by_head(number, model)
    raise ValueError(
        f"{model.name}: queries, keys and values of {type(attention).__name__} cannot be told apart"
    )


def _in_row(number: int, model: Model) -> Put:
    sizes = [heads * model.d_head for heads in (model.n_heads, model.n_kv_heads, model.n_kv_heads)]

    def put(own: Tensor, other: Tensor) -> Tensor:
        parts = list(own.split(sizes, dim=-1))
        parts[number] = other.split(sizes, dim=-1)[number]
        return torch.cat(parts, dim=-1)

    return put


def _by_head(number: int, model: Model) -> Put:
    """GPT-NeoX and Bloom: each head's query, key and value side by side."""

    def put(own: Tensor, other: Tensor) -> Tensor:
        split = own.unflatten(-1, (model.n_heads, 3, model.d_head)).clone()
        split[..., number, :] = other.unflatten(-1, split.shape[-3:])[..., number, :]
        return split.flatten(-3)

    return put
