"""Where a Hugging Face module keeps its blocks, its attention and what turns heads into writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from rolecall.analyses.models import Model

_PROJECTIONS = ("o_proj", "out_proj", "c_proj", "dense", "out_lin", "wo")


@dataclass(frozen=True)
class Anatomy:
    """The parts of a transformer that ablation touches.

    Attributes:
        whole: The module that makes logits.
        body: The part of it that makes the last hidden states.
        blocks: In order.
        attention: Layer → the module that holds the output projection.
        projection: Layer → the output projection; its input is z, heads side by side.
    """

    whole: nn.Module
    body: nn.Module
    blocks: tuple[nn.Module, ...]
    attention: Mapping[int, nn.Module]
    projection: Mapping[int, nn.Module]


def anatomy(model: Model) -> Anatomy:
    """The parts of the model's plain module, found by structure.

    Raises:
        ValueError: There is no plain module, or its parts are nowhere to be found.
    """
    whole = plain_module(model)
    blocks = _blocks(whole, model)
    projection, attention = {}, {}
    for layer in model.pattern_layers:
        projection[layer], attention[layer] = _projection(blocks[layer], layer, model)
    return Anatomy(whole, _body(whole, blocks), blocks, attention, projection)


def _body(whole: nn.Module, blocks: tuple[nn.Module, ...]) -> nn.Module:
    """What the model calls to get its last hidden states; OPT calls the decoder in its body."""
    body: Any = getattr(whole, "base_model", whole)
    inside = getattr(body, "decoder", None)
    if isinstance(inside, nn.Module) and blocks[0] in set(inside.modules()):
        return inside
    return body


def plain_module(model: Model) -> Any:
    """The Hugging Face module itself.

    Raises:
        ValueError: The model was opened without one.
    """
    if model.plain is None:
        raise ValueError(
            f"{model.name} was given as a TransformerBridge alone, or with processed weights; "
            "effects need the Hugging Face model itself: give its name, its folder or the module"
        )
    return model.plain


def _blocks(whole: nn.Module, model: Model) -> tuple[nn.Module, ...]:
    for module in whole.modules():
        if isinstance(module, nn.ModuleList) and len(module) == model.n_layers:
            return tuple(module)
    raise ValueError(f"{model.name} ({type(whole).__name__}): no list of {model.n_layers} blocks")


def _projection(block: nn.Module, layer: int, model: Model) -> tuple[nn.Module, nn.Module]:
    width = model.n_heads * model.d_head
    for path, module in block.named_modules():
        holder, _, name = path.rpartition(".")
        if name in _PROJECTIONS and "attn" in path.replace("attention", "attn"):
            weight = getattr(module, "weight", None)
            if "cross" not in path and weight is not None and width in weight.shape:
                return module, block.get_submodule(holder)
    raise ValueError(f"{model.name}: no attention output projection in layer {layer}")


def first(output: Any) -> Tensor:
    """The hidden states of what a block or an attention module returned."""
    return output if isinstance(output, Tensor) else output[0]


@contextmanager
def replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Inside, the module computes `forward`; afterwards what it did before."""
    own = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


@contextmanager
def watched(
    before: Mapping[nn.Module, Callable[..., Any]] | None = None,
    after: Mapping[nn.Module, Callable[..., Any]] | None = None,
) -> Iterator[None]:
    """Forward pre-hooks (given keywords too) and forward hooks, taken away on the way out."""
    handles = []
    try:
        for module, hook in (before or {}).items():
            handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
        for module, hook in (after or {}).items():
            handles.append(module.register_forward_hook(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()
