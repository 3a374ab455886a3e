"""Reading patterns and z layer by layer, and leaving the model as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from rolecall.analyses.forward import evaluating, real_positions, run_body
from rolecall.analyses.model import Model

PatternVisit = Callable[[int, Float[Tensor, "batch head query key"]], object]
ZVisit = Callable[[int, Float[Tensor, "batch pos head d_head"]], object]

ROW_LIMIT = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far a row of a pattern may be from 1: what rounding to the model's type explains."""


def read_patterns(
    model: Model,
    token_ids: Int[Tensor, "batch pos"],
    visit: PatternVisit,
    *,
    lengths: Int[Tensor, " batch"] | None = None,
) -> None:
    """Calls `visit(layer, pattern)` for each layer with a pattern, in order, as it is made.

    Patterns come in float32, and no logits are computed.

    Args:
        model: Read in eval mode and without gradients, then put back.
        token_ids: A batch; padding, if any, stands on the right.
        visit: Reduces the pattern and does not write into it; keeping them all fills the memory.
        lengths: Tokens of each example that are real. Padding is told by them, never by its id.

    Raises:
        ValueError: Ids the model does not have; attention that is not eager; a layer that gave
            no pattern, or one whose rows do not sum to 1 (with layer, head and example); a
            `visit` that wrote into its pattern.
    """

    def see(layer: int, raw: Tensor) -> None:
        pattern = raw.detach().to(torch.float32)
        require_rows(pattern, layer=layer, limit=ROW_LIMIT[model.dtype], lengths=lengths)
        _show(visit, layer, pattern)

    points = {layer: model.attention(layer).hook_pattern for layer in model.pattern_layers}
    _read(model, token_ids, points=points, see=see, lengths=lengths)


def read_z(
    model: Model,
    token_ids: Int[Tensor, "batch pos"],
    visit: ZVisit,
    *,
    lengths: Int[Tensor, " batch"] | None = None,
) -> None:
    """Calls `visit(layer, z)`, what each head hands to `W_O`, as `read_patterns` does.

    `z` comes in the model's own type.
    """

    def see(layer: int, raw: Tensor) -> None:
        _show(visit, layer, split_heads(raw.detach(), model.n_heads))

    points = {layer: model.attention(layer).o.hook_in for layer in model.pattern_layers}
    _read(model, token_ids, points=points, see=see, lengths=lengths)


def split_heads(z: Tensor, n_heads: int) -> Float[Tensor, "batch pos head d_head"]:
    """What enters the output projection, head by head."""
    return rearrange(z, "batch pos (head d_head) -> batch pos head d_head", head=n_heads)


def require_rows(
    pattern: Float[Tensor, "batch head query key"],
    *,
    layer: int,
    limit: float,
    lengths: Int[Tensor, " batch"] | None = None,
) -> None:
    """Raises a ValueError, with the place, where a real row does not sum to 1 or is NaN.

    Rows of padding are not looked at: with every key masked they may hold anything.
    """
    off = (pattern.sum(dim=-1) - 1).abs()
    if lengths is not None:
        real = real_positions(lengths.to(off.device), width=off.shape[-1])
        off = off.where(rearrange(real, "batch query -> batch 1 query"), 0.0)
    # Not `off > limit`: NaN is neither above nor below.
    if bool((off <= limit).all()):
        return
    example, head, query = (~(off <= limit)).nonzero()[0].tolist()
    total = float(pattern[example, head, query].sum())
    raise ValueError(
        f"attention must sum to 1, and L{layer}H{head} gives {total:.4g} at position {query} of "
        f"example {example}; the weights or the hooks on the model are at fault"
    )


def require_eager(model: Model) -> None:
    """Raises a ValueError where attention would be computed without its pattern."""
    kind = getattr(getattr(model.bridge.original_model, "config", None), "_attn_implementation", "")
    if kind not in ("", None, "eager"):
        raise ValueError(
            f"patterns are made only by eager attention, and {model.name} is set to {kind!r}; "
            "give the model loaded with attn_implementation='eager'"
        )


@contextmanager
def hooked(hooks: Mapping[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """Adds a forward hook to each module, and takes away those alone, whatever happens inside."""
    handles = []
    try:
        for module, hook in hooks.items():
            handles.append(module.register_forward_hook(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _show(visit: Callable[[int, Any], object], layer: int, seen: Tensor) -> None:
    # The model goes on to use this tensor. A copy would cost more than the check.
    before = seen._version
    visit(layer, seen)
    if seen._version != before:
        raise ValueError(
            f"what was read in layer {layer} was written into, which changes the model's run; "
            "work on a copy"
        )


def _read(
    model: Model,
    token_ids: Int[Tensor, "batch pos"],
    *,
    points: Mapping[int, nn.Module],
    see: Callable[[int, Tensor], None],
    lengths: Int[Tensor, " batch"] | None,
) -> None:
    require_eager(model)
    fired = dict.fromkeys(points, 0)

    def at(layer: int) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            fired[layer] += 1
            see(layer, output)

        return hook

    hooks = {point: at(layer) for layer, point in points.items()}
    with evaluating(model.bridge.original_model), hooked(hooks):
        run_body(model, token_ids, lengths)
    wrong = [(layer, times) for layer, times in fired.items() if times != 1]
    if wrong:
        layer, times = wrong[0]
        raise ValueError(
            f"the hook in layer {layer} of {model.name} fired {times} times in one forward pass "
            "instead of once; the heads of this architecture cannot be read"
        )
