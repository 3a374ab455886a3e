"""Running a model without some of its heads: inside `without(...)` the user runs it themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rolecall.analyses.anatomy import anatomy, watched
from rolecall.analyses.heads import Head, parse_units
from rolecall.analyses.hooks import hooked, read_z
from rolecall.analyses.models import Model
from rolecall.analyses.replacements import (
    require_kind,
    spread,
    token_counts,
    token_means,
    token_sums,
    value_bias,
)
from rolecall.probes.passages import passages

REFERENCE_PASSAGES = 16

Values = Callable[[Tensor], Tensor]
"""From a layer's z, [batch pos head d_head], to what replaces it."""


@contextmanager
def without(
    model: Model,
    heads: str | Iterable[str],
    kind: str = "zero",
    *,
    reference: Sequence[Sequence[int]] | None = None,
    twin: Int[Tensor, "batch pos"] | None = None,
) -> Iterator[Model]:
    """The model, in which these heads write something else as long as the context lasts.

    Both `model.plain` and `model.bridge` are changed; hooks of the user's own stay and fire.

    Args:
        model: From `load_model`.
        heads: Names like `L5H1`.
        kind: What replaces each head's z: zero, zero_folded (`b_V` stays), mean (over the tokens
            of `reference`, the first position by itself), or resample (its value on `twin`).
        reference: Token ids to take means over, disjoint from what will be run; if None, passages
            of natural text that come with rolecall.
        twin: Token ids of the same shape as what will be run.

    Raises:
        ValueError: A head or kind that there is not, nothing to take values from, or, when the
            model is run, an input of another shape than the twin's.
    """
    names = [heads] if isinstance(heads, str) else heads
    chosen = sorted({head for unit in parse_units(names, model) for head in unit.heads})
    values = _values(model, chosen, require_kind(kind), reference=reference, twin=twin)
    with ExitStack() as stack:
        for hooks in _hooks(model, chosen, values):
            stack.enter_context(hooks)
        yield model


def _hooks(model: Model, heads: Sequence[Head], values: dict[int, Values]) -> Iterator[Any]:
    at = {layer: [h for lay, h in heads if lay == layer] for layer in values}

    def replace(layer: int, z: Tensor) -> Tensor:
        apart = z if z.ndim == 4 else z.unflatten(-1, (model.n_heads, model.d_head))
        new = apart.clone()
        new[:, :, at[layer]] = values[layer](apart)[:, :, at[layer]].to(z)
        return new.reshape(z.shape)

    def in_bridge(layer: int) -> Callable[..., Tensor]:
        return lambda _module, _inputs, output: replace(layer, output)

    def in_plain(layer: int) -> Callable[..., Any]:
        return lambda _module, args, kwargs: ((replace(layer, args[0]), *args[1:]), kwargs)

    points: dict[nn.Module, Any] = {
        model.attention(layer).o.hook_in: in_bridge(layer) for layer in at
    }
    yield hooked(points)
    if model.plain is not None:
        parts = anatomy(model)
        yield watched(before={parts.projection[layer]: in_plain(layer) for layer in at})


def _values(
    model: Model,
    heads: Sequence[Head],
    kind: str,
    *,
    reference: Sequence[Sequence[int]] | None,
    twin: Tensor | None,
) -> dict[int, Values]:
    layers = sorted({layer for layer, _ in heads})
    if kind == "mean":
        return _means(model, layers, reference)
    if kind == "resample":
        return _twins(model, layers, twin)
    return {layer: _constant(model, layer, kind) for layer in layers}


def _constant(model: Model, layer: int, kind: str) -> Values:
    bias = value_bias(model, layer) if kind == "zero_folded" else None
    return lambda z: torch.zeros_like(z) if bias is None else bias.expand_as(z)


def _means(
    model: Model, layers: Sequence[int], reference: Sequence[Sequence[int]] | None
) -> dict[int, Values]:
    means = reference_means(model, layers, reference)
    return {
        layer: (lambda z, mean=means[layer]: spread(mean, z.shape[1]).expand_as(z))
        for layer in layers
    }


def reference_means(
    model: Model, layers: Sequence[int], reference: Sequence[Sequence[int]] | None = None
) -> dict[int, Float[Tensor, "two head d_head"]]:
    """Each layer's mean z over the first positions, and over all other tokens, of a reference set.

    Args:
        model: The model.
        layers: Which layers.
        reference: Token ids; if None, passages of natural text that come with rolecall.

    Raises:
        ValueError: The set is empty.
    """
    if reference is None:
        found, _ = passages(model.aligner, n=REFERENCE_PASSAGES, seed=0)
        reference = [passage.token_ids for passage in found]
    if not reference:
        raise ValueError("a mean needs a reference set: give token ids as reference=")
    sums: dict[int, Tensor] = {}
    counts = torch.zeros(2)

    def visit(layer: int, z: Tensor) -> None:
        if layer in layers:
            sums[layer] = sums.get(layer, torch.zeros(())) + token_sums(z[0])

    for ids in reference:
        read_z(model, torch.tensor([list(ids)]), visit)
        counts += token_counts(len(ids))
    return {layer: token_means(total, counts) for layer, total in sums.items()}


def _twins(model: Model, layers: Sequence[int], twin: Tensor | None) -> dict[int, Values]:
    if twin is None:
        raise ValueError("to resample heads, give the token ids of the twin as twin=")
    kept: dict[int, Tensor] = {}

    def visit(layer: int, z: Tensor) -> None:
        if layer in layers:
            kept[layer] = z

    read_z(model, twin, visit)

    def values(layer: int) -> Values:
        def take(z: Tensor) -> Tensor:
            if z.shape[:2] != twin.shape:
                raise ValueError(
                    f"the twin has the shape {tuple(twin.shape)}, the input {tuple(z.shape[:2])}; "
                    "they must be alike, position by position"
                )
            return kept[layer]

        return take

    return {layer: values(layer) for layer in layers}
