"""The same gated MLPs without their large temporaries: what they cost is memory traffic, not work.

`act(gate(x)) * up(x)` makes three tensors several times as wide as the residual stream. Working in
place gives the same numbers from one; on SmolLM2 that is a tenth of the time of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from rolecall.analyses.anatomy import Anatomy, replaced

_PARTS = ("gate_proj", "up_proj", "down_proj", "act_fn")


@contextmanager
def lean(parts: Anatomy) -> Iterator[None]:
    """Inside, gated MLPs work in place; those that then give other numbers are left alone.

    Only where no gradients are asked for: what is written over is lost to the backward pass.
    """
    with ExitStack() as stack:
        for block in parts.blocks:
            for module in block.modules():
                if all(hasattr(module, name) for name in _PARTS):
                    forward = _in_place(module)
                    if _same(module, forward):
                        stack.enter_context(replaced(module, forward))
        yield


def _in_place(mlp: Any) -> Callable[[Tensor], Tensor]:
    silu = isinstance(mlp.act_fn, nn.SiLU) or "SiLU" in type(mlp.act_fn).__name__

    def forward(x: Tensor) -> Tensor:
        gate = mlp.gate_proj(x)
        gate = nn.functional.silu(gate, inplace=True) if silu else mlp.act_fn(gate)
        return mlp.down_proj(gate.mul_(mlp.up_proj(x)))

    return forward


def _same(mlp: Any, forward: Callable[[Tensor], Tensor]) -> bool:
    weight = mlp.gate_proj.weight
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2, weight.shape[-1], generator=draw).to(weight)
    return bool(torch.equal(mlp(x), forward(x)))
