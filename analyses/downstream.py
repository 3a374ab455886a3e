"""The engine: what a model's last stream becomes when heads are replaced, from their layer on.

A block's input is stored once. To replace heads of a layer, their change of the attention output,
`(r - z) W_O`, is added to the stored attention output and only what follows runs again, many heads
side by side in the batch. That shortcut is proved on the model before it is used; where it does
not hold, the block runs again with z replaced, and failing that, the whole model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import torch
from einops import rearrange, repeat
from jaxtyping import Float, Int
from torch import Tensor, nn

from rolecall.analyses.anatomy import Anatomy, anatomy, first, replaced, watched
from rolecall.analyses.item_batches import Reads
from rolecall.analyses.models import Model
from rolecall.analyses.tail import Tail, find_tail, no_cache

Route = Literal["writes", "block", "whole"]

KEPT = 8
"""Shapes of hidden states whose calls are kept; their masks are not small."""

ROWS = 512
"""Tokens that run at once: few enough that a block's intermediates stay in the cache."""


@dataclass(frozen=True)
class Call:
    """How the model calls a block, its hidden states aside."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self, block: nn.Module, hidden: Float[Tensor, "batch pos d_model"]) -> Any:
        """What the block returns for these hidden states."""
        return block(hidden, *self.args, **self.kwargs)


@dataclass(frozen=True)
class Step:
    """One layer of a clean run.

    Attributes:
        hidden: The block's input.
        z: What each head hands to `W_O`.
        attn_out: What the attention's output projection returns, `b_O` included.
    """

    hidden: Float[Tensor, "batch pos d_model"]
    z: Float[Tensor, "batch pos head d_head"]
    attn_out: Float[Tensor, "batch pos d_model"]


@dataclass
class Engine:
    """Runs a model from any layer on. Use it inside `evaluating(model.plain)`.

    Attributes:
        model: The model.
        parts: Where its blocks and projections are.
        tail: What follows its blocks.
        route: What runs again: what follows the attention's write, the block, or everything.
        alike: A block is called alike for one sequence and for many of that length. Not so where
            a bias by distance is made for each sequence of the batch (Bloom's ALiBi).
        rows: Tokens that run at once.
    """

    model: Model
    parts: Anatomy
    tail: Tail
    route: Route = "writes"
    alike: bool = True
    rows: int = ROWS
    _calls: dict[tuple[int, int], tuple[Call, ...]] = field(default_factory=dict, repr=False)

    def calls(self, hidden: Float[Tensor, "batch pos d_model"]) -> tuple[Call, ...]:
        """How each block is called with hidden states of this shape."""
        shape = 1 if self.alike else hidden.shape[0], hidden.shape[1]
        if shape not in self._calls:
            if len(self._calls) >= KEPT:
                self._calls.clear()
            self._calls[shape] = self._watch_calls(shape)
        return self._calls[shape]

    def _watch_calls(self, shape: tuple[int, int]) -> tuple[Call, ...]:
        calls: list[Call] = []

        def note(_block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            rest = {k: v for k, v in kwargs.items() if k != "hidden_states"}
            calls.append(Call(args[1:], rest))

        ids = torch.zeros(shape, dtype=torch.long, device=self.model.device)
        with watched(before=dict.fromkeys(self.parts.blocks, note)):
            self.parts.body(input_ids=ids, **no_cache(self.model))
        return tuple(calls)

    def start(self, token_ids: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        """The first block's input; nothing else is computed."""
        try:
            with replaced(self.parts.blocks[0], _stop):
                self.parts.body(input_ids=token_ids, **no_cache(self.model))
        except _Stopped as stopped:
            return stopped.hidden
        raise AssertionError("the first block was not called")

    def clean(
        self, layer: int, hidden: Float[Tensor, "batch pos d_model"]
    ) -> tuple[Step | None, Float[Tensor, "batch pos d_model"]]:
        """One layer as the model computes it (None where it has no heads), and what comes out."""
        call = self.calls(hidden)[layer]
        block, projection = self.parts.blocks[layer], self.parts.projection.get(layer)
        if projection is None:
            return None, first(call.run(block, hidden))
        kept: dict[str, Tensor] = {}
        with watched(
            before={projection: lambda _m, args, _k: kept.update(z=args[0])},
            after={projection: lambda _m, _a, output: kept.update(attn_out=output)},
        ):
            after = first(call.run(block, hidden))
        return Step(hidden, self.by_head(kept["z"]), kept["attn_out"]), after

    def by_head(self, z: Tensor) -> Float[Tensor, "batch pos head d_head"]:
        """The projection's input with its heads apart."""
        shape = {"head": self.model.n_heads}
        return rearrange(z, "batch pos (head d_head) -> batch pos head d_head", **shape)

    def change(
        self,
        layer: int,
        z_change: Float[Tensor, "batch pos head d_head"],
        heads: Sequence[Sequence[int]],
    ) -> Float[Tensor, "unit batch pos d_model"]:
        """How the attention output changes when each unit's heads change by `z_change`."""
        weight = self.model.W_O(layer).detach()
        if all(len(unit) == 1 for unit in heads):
            chosen = [unit[0] for unit in heads]
            moved = rearrange(z_change[:, :, chosen], "b p u e -> u (b p) e")
            return torch.bmm(moved, weight[chosen]).unflatten(1, z_change.shape[:2])
        return torch.stack(
            [torch.einsum("bphe,hed->bpd", z_change[:, :, list(u)], weight[list(u)]) for u in heads]
        )

    def after(
        self,
        layer: int,
        step: Step,
        z_change: Float[Tensor, "batch pos head d_head"],
        heads: Sequence[Sequence[int]],
        *,
        reads: Reads,
        token_ids: Int[Tensor, "batch pos"],
    ) -> Float[Tensor, "unit read d_model"]:
        """The last stream, where it is read, with each unit's heads of one layer changed."""
        if self.route == "whole":
            return self._whole(layer, step, z_change, heads, reads=reads, token_ids=token_ids)
        units, last = len(heads), layer == len(self.parts.blocks) - 1
        block = self.parts.blocks[layer]
        if self.route == "writes":
            attn_out = step.attn_out + self.change(layer, z_change, heads)
            hidden = step.hidden.expand_as(attn_out)
            if last:
                call = self.calls(step.hidden)[layer]
                hidden, attn_out = (_at_reads(h, reads) for h in (hidden, attn_out))
                return self._finish(layer, call, hidden, attn_out, units)
            hidden = _stack(hidden)
            with replaced(self.parts.attention[layer], _returns(_stack(attn_out))):
                hidden = first(self.calls(hidden)[layer].run(block, hidden))
        else:
            z = _stack(_changed(step.z, z_change, heads))
            hidden = repeat(step.hidden, "b p d -> (u b) p d", u=units)
            with watched(before={self.parts.projection[layer]: lambda *_: ((z,), {})}):
                hidden = first(self.calls(hidden)[layer].run(block, hidden))
        return self._rest(layer + 1, hidden, reads, units)

    def _rest(self, layer: int, hidden: Tensor, reads: Reads, units: int) -> Tensor:
        calls = self.calls(hidden)
        last = len(self.parts.blocks) - 1
        for at in range(layer, last):
            hidden = first(calls[at].run(self.parts.blocks[at], hidden))
        if layer <= last and self.route == "writes" and last in self.parts.attention:
            attn_out = first(self.attend(last, hidden))
            split = (rearrange(h, "(u b) p d -> u b p d", u=units) for h in (hidden, attn_out))
            hidden, attn_out = (_at_reads(h, reads) for h in split)
            return self._finish(last, calls[last], hidden, attn_out, units)
        if layer <= last:
            hidden = first(calls[last].run(self.parts.blocks[last], hidden))
        return rearrange(hidden, "(u b) p d -> u b p d", u=units)[:, reads.row, reads.pos]

    def attend(self, layer: int, hidden: Float[Tensor, "batch pos d_model"]) -> Any:
        """What a layer's attention module returns for these block inputs; no MLP runs."""
        attention = self.parts.attention[layer]
        try:
            with replaced(attention, _stop):
                self.calls(hidden)[layer].run(self.parts.blocks[layer], hidden)
        except _Stopped as stopped:
            return attention(*stopped.args, **stopped.kwargs)
        raise AssertionError("the attention was not called")

    def _finish(
        self, layer: int, call: Call, hidden: Tensor, attn_out: Tensor, units: int
    ) -> Tensor:
        """The last block's output for streams whose attention output is known, read by read."""
        with replaced(self.parts.attention[layer], _returns(attn_out)):
            out = first(call.run(self.parts.blocks[layer], hidden))
        return rearrange(out, "(u r) 1 d -> u r d", u=units)

    def _whole(
        self,
        layer: int,
        step: Step,
        z_change: Tensor,
        heads: Sequence[Sequence[int]],
        *,
        reads: Reads,
        token_ids: Tensor,
    ) -> Tensor:
        z = _stack(_changed(step.z, z_change, heads))
        kept: dict[str, Tensor] = {}
        with watched(
            before={self.parts.projection[layer]: lambda *_: ((z,), {})},
            after={self.parts.blocks[-1]: lambda _m, _i, out: kept.update(hidden=first(out))},
        ):
            ids = repeat(token_ids, "b p -> (u b) p", u=len(heads))
            self.parts.body(input_ids=ids, **no_cache(self.model))
        return rearrange(kept["hidden"], "(u b) p d -> u b p d", u=len(heads))[
            :, reads.row, reads.pos
        ]


class _Stopped(Exception):
    """Raised in place of a module's work, to learn what it was called with."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]):
        super().__init__("stopped")
        self.args, self.kwargs = args, kwargs

    @property
    def hidden(self) -> Tensor:
        """The hidden states among the arguments."""
        return self.args[0] if self.args else self.kwargs["hidden_states"]


def _stop(*args: Any, **kwargs: Any) -> Any:
    raise _Stopped(args, kwargs)


def _returns(attn_out: Tensor) -> Any:
    return lambda *_, **__: (attn_out, None)


def _stack(tensor: Float[Tensor, "unit batch ..."]) -> Tensor:
    return tensor.flatten(0, 1)


def _changed(z: Tensor, z_change: Tensor, heads: Sequence[Sequence[int]]) -> Tensor:
    """Z with each unit's heads changed, [unit batch pos (head d_head)]."""
    new = repeat(z, "b p h e -> u b p h e", u=len(heads)).clone()
    for unit, chosen in enumerate(heads):
        new[unit][:, :, list(chosen)] += z_change[:, :, list(chosen)]
    return rearrange(new, "u b p h e -> u b p (h e)")


def _at_reads(hidden: Float[Tensor, "unit batch pos d_model"], reads: Reads) -> Tensor:
    return rearrange(hidden[:, reads.row, reads.pos], "u r d -> (u r) 1 d")


def open_engine(model: Model, *, rows: int = ROWS) -> Engine:
    """An engine for the model, by the fastest route that gives what the whole model gives.

    Raises:
        ValueError: The model has no language-model head, or its parts cannot be found or run.
    """
    parts = anatomy(model)
    tail = find_tail(model, parts)
    try:
        truth = _probe(Engine(model, parts, tail, "whole", alike=False))
    except Exception as error:
        raise ValueError(
            f"{model.name}: the blocks of {type(parts.whole).__name__} cannot be run one by one "
            f"({type(error).__name__}: {error}), so there are no effects for it"
        ) from error
    for route, alike in product(("writes", "block"), (True, False)):
        engine = Engine(model, parts, tail, route, alike, rows)
        try:
            if _agree(_probe(engine), truth):
                return engine
        # Whatever a block that is built otherwise raises, the next route runs more of it.
        except Exception:
            continue
    return Engine(model, parts, tail, "whole", alike=False, rows=rows)


def _probe(engine: Engine) -> Tensor:
    """Normed streams with a head removed in the first, middle and last layer of two sequences."""
    model = engine.model
    length = min(5, model.n_ctx)
    ids = torch.arange(2 * length, device=model.device).reshape(2, length) % model.d_vocab
    place = (
        torch.tensor([0, 0, 1], device=model.device),
        torch.tensor([length - 1, length // 2, length - 1], device=model.device),
    )
    reads = Reads(place[0], place[1], place[0], None, 2)
    layers = model.pattern_layers
    wanted = {layers[0], layers[len(layers) // 2], layers[-1]}
    hidden, found = engine.start(ids), []
    for layer in range(max(wanted) + 1):
        step, after = engine.clean(layer, hidden)
        if layer in wanted and step is not None:
            units = [(0,), (model.n_heads - 1,), (0, model.n_heads - 1)]
            stream = engine.after(layer, step, -step.z, units, reads=reads, token_ids=ids)
            found.append(engine.tail.normed(stream))
        hidden = after
    return torch.stack(found)


def _agree(one: Tensor, other: Tensor) -> bool:
    limit = 1e-4 if one.dtype == torch.float32 else 5e-2
    scale = max(1.0, float(other.float().abs().max()))
    return bool(((one - other).float().abs() <= limit * scale).all())
