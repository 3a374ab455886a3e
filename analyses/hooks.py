"""Reading patterns and z layer by layer, and leaving the model as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from rolecall.analyses.models import Model

PatternVisit = Callable[[int, Float[Tensor, "batch head query key"]], None]
ZVisit = Callable[[int, Float[Tensor, "batch pos head d_head"]], None]

# How far a row of a pattern may be from 1: what rounding to the model's type explains.
ROW_LIMIT = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def read_patterns(
    model: Model,
    token_ids: Int[Tensor, "batch pos"],
    visit: PatternVisit,
    *,
    lengths: Int[Tensor, " batch"] | None = None,
) -> None:
    """Calls `visit(layer, pattern)` for each layer with a pattern, in order, as it is made.

    The pattern is a float32 copy: what `visit` does to it changes nothing. No logits are computed.

    Args:
        model: Read in eval mode and without gradients, then put back.
        token_ids: A batch; padding, if any, stands on the right.
        visit: Reduces the pattern; keeping every one of them fills the memory.
        lengths: Tokens of each example that are real. Padding is told by them, never by its id.

    Raises:
        ValueError: Ids the model does not have; attention that is not eager; a layer that gave
            no pattern, or one whose rows do not sum to 1 (with layer, head and example).
    """

    def see(layer: int, raw: Tensor) -> None:
        pattern = raw.detach().to(torch.float32, copy=True)
        require_rows(pattern, layer=layer, limit=ROW_LIMIT[model.dtype], lengths=lengths)
        visit(layer, pattern)

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

    `z` is a copy in the model's own type.
    """

    def see(layer: int, raw: Tensor) -> None:
        z = raw.detach().clone()
        if z.ndim == 3:
            z = rearrange(z, "batch pos (head d_head) -> batch pos head d_head", head=model.n_heads)
        visit(layer, z)

    points = {layer: model.attention(layer).o.hook_in for layer in model.pattern_layers}
    _read(model, token_ids, points=points, see=see, lengths=lengths)


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


def real_positions(lengths: Int[Tensor, " batch"], *, width: int) -> Tensor:
    """True where a token is real, [batch pos], for right-padded sequences of these lengths."""
    positions = torch.arange(width, device=lengths.device)
    return rearrange(positions, "pos -> 1 pos") < rearrange(lengths, "batch -> batch 1")


def run_body(
    model: Model,
    token_ids: Int[Tensor, "batch pos"],
    lengths: Int[Tensor, " batch"] | None = None,
) -> Any:
    """The hooked network's output before its head, hooks firing on the way."""
    require_ids(model, token_ids)
    body = model.body()
    ids = token_ids.to(model.device)
    arguments: dict[str, Any] = {}
    if isinstance(body, PreTrainedModel):
        arguments["use_cache"] = False
    if lengths is not None:
        mask = real_positions(lengths.to(model.device), width=ids.shape[1])
        arguments["attention_mask"] = mask.long()
    return body(ids, **arguments)


def require_ids(model: Model, token_ids: Int[Tensor, "batch pos"]) -> None:
    """Raises a ValueError for an id without embedding, no token at all, or too long an input."""
    if token_ids.numel() == 0:
        raise ValueError("there are no tokens to run the model on")
    low, high = (int(bound) for bound in token_ids.aminmax())
    if low < 0 or high >= model.d_vocab:
        wrong = low if low < 0 else high
        raise ValueError(f"token id {wrong} is outside the vocabulary of {model.d_vocab} ids")
    if token_ids.shape[1] > model.n_ctx:
        raise ValueError(
            f"length {token_ids.shape[1]} is past the model's context of {model.n_ctx}; "
            "use shorter inputs"
        )


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients inside; each part's training mode is put back afterwards."""
    # Flags are set one by one: `eval()` would not bring back a part that was frozen by itself.
    training = [part for module in modules for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


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


def require_eager(model: Model) -> None:
    """Raises a ValueError where attention would be computed without its pattern."""
    kind = getattr(getattr(model.bridge.original_model, "config", None), "_attn_implementation", "")
    if kind not in ("", None, "eager"):
        raise ValueError(
            f"patterns are made only by eager attention, and {model.name} is set to {kind!r}; "
            "call set_attn_implementation('eager') on the bridged model"
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
    wrong = {layer: times for layer, times in fired.items() if times != 1}
    if wrong:
        layer, times = next(iter(wrong.items()))
        raise ValueError(
            f"the hook in layer {layer} of {model.name} fired {times} times in one forward pass "
            "instead of once; heads of this architecture cannot be read"
        )
