"""One task, layer by layer: a clean step of every batch, then every unit of that layer replaced.

Each batch's stream is put aside on disk between layers, so memory does not grow with the number of
items, and the clean model runs only once for all layers and kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.anatomy import first, watched
from rolecall.analyses.direct import Straight, straight
from rolecall.analyses.downstream import Engine, Step
from rolecall.analyses.heads import Unit
from rolecall.analyses.item_batches import Batch, batches
from rolecall.analyses.item_rows import Clean, Found
from rolecall.analyses.item_store import SETS, ItemStore
from rolecall.analyses.metrics import Scored, score
from rolecall.analyses.replacements import Kind, Means, halves, value_bias
from rolecall.analyses.shelf import Shelf, open_shelf
from rolecall.analyses.tail import no_cache
from rolecall.probes.base import Task

Tell = Callable[[int], None]
"""Called with the number of (unit, item) pairs that were just done."""


@dataclass(frozen=True)
class Order:
    """What is to be measured.

    Attributes:
        task: On what.
        units: What is removed.
        stores: Kind of replacement → where its numbers go.
        kl: KL is worked out as well.
        direct: So is the direct effect.
    """

    task: Task
    units: tuple[Unit, ...]
    stores: Mapping[Kind, ItemStore]
    kl: bool = True
    direct: bool = True

    def layers(self) -> list[int]:
        """Where something is removed, and `SETS` last if there are sets that span layers."""
        single = {unit.layer for unit in self.units if unit.one_layer}
        return sorted(single) + [SETS] * any(not unit.one_layer for unit in self.units)

    def at(self, layer: int) -> list[Unit]:
        """The units of a layer's block."""
        if layer == SETS:
            return [unit for unit in self.units if not unit.one_layer]
        return [unit for unit in self.units if unit.one_layer and unit.layer == layer]


@dataclass
class Sweep:
    """The state of a task's run between layers."""

    engine: Engine
    order: Order
    shelf: Shelf
    tell: Tell
    batches: list[Batch] = field(default_factory=list)
    clean: list[Clean] = field(default_factory=list)
    straight: Straight | None = None

    def start(self) -> None:
        """Nothing; makes the batches and puts their first streams aside."""
        task, model = self.order.task, self.engine.model
        numbers = range(len(task.items))
        paired = [i for i in numbers if task.items[i].twin_token_ids is not None]
        alone = [i for i in numbers if task.items[i].twin_token_ids is None]
        self.straight = straight(self.engine) if self.order.direct else None
        for group in (paired, alone):
            made = batches(task, model, tokens=self.engine.rows, chosen=group)
            self.batches += list(made)
        for number, batch in enumerate(self.batches):
            resid = self._last_stream(batch)
            self.clean.append(self._score_clean(batch, resid))
            self.shelf.put(f"resid-{number}", resid=resid)
            self.shelf.put(f"hidden-{number}", hidden=self.engine.start(batch.token_ids))
            if batch.twin_ids is not None and "resample" in self.order.stores:
                self.shelf.put(f"twin-{number}", hidden=self.engine.start(batch.twin_ids))

    def _last_stream(self, batch: Batch) -> Float[Tensor, "read d_model"]:
        kept: dict[str, Tensor] = {}
        last = self.engine.parts.blocks[-1]
        with watched(after={last: lambda _m, _i, out: kept.update(resid=first(out))}):
            self.engine.parts.body(input_ids=batch.token_ids, **no_cache(self.engine.model))
        return kept["resid"][batch.reads.row, batch.reads.pos]

    def _score_clean(self, batch: Batch, resid: Tensor) -> Clean:
        tail, reads = self.engine.tail, batch.reads
        normed = tail.normed(resid)[None]
        metric = score(tail, normed, reads).metric[0]
        each, left = divmod(len(reads.row), reads.n_items)
        even = not left and bool((torch.bincount(reads.row) == each).all())
        if self.order.task.metric != "loss" or reads.n_items < 2 or not even:
            return Clean(metric, torch.full_like(metric, torch.nan))
        other = type(reads)(reads.row, reads.pos, reads.answer.roll(each), None, reads.n_items)
        return Clean(metric, score(tail, normed, other).metric[0])

    def run(self) -> None:
        """Nothing; writes every block that is not there yet."""
        waiting: dict[int, list[Kind]] = {
            layer: [k for k, store in self.order.stores.items() if not store.has(layer)]
            for layer in self.order.layers()
        }
        needed = [layer for layer, kinds in waiting.items() if kinds]
        if not needed:
            return
        spanning = {layer for unit in self.order.at(SETS) for layer, _ in unit.heads}
        spanning = spanning if waiting.get(SETS) else set()
        self.start()
        for layer in range(max([*needed, *spanning]) + 1):
            kinds: list[Kind] = (
                list(self.order.stores) if layer in spanning else waiting.get(layer, [])
            )
            means = self._clean_layer(layer, kinds)
            for kind in kinds:
                if layer in spanning:
                    self._keep_values(layer, kind, means)
                if kind in waiting.get(layer, []):
                    self.order.stores[kind].write(layer, self._block(layer, kind, means))
        for kind in waiting.get(SETS, []):
            self.order.stores[kind].write(SETS, self._sets(kind))

    def _clean_layer(self, layer: int, kinds: Sequence[Kind]) -> Means | None:
        """One clean step of every batch, its twins too; what a mean replacement needs."""
        means = Means(halves(self.order.task.items)) if "mean" in kinds else None
        for number, batch in enumerate(self.batches):
            hidden = self.shelf.get(f"hidden-{number}")["hidden"]
            step, after = self.engine.clean(layer, hidden)
            self.shelf.put(f"hidden-{number}", hidden=after)
            if kinds and step is not None:
                parts = {"hidden": step.hidden, "z": step.z, "attn_out": step.attn_out}
                self.shelf.put(f"step-{number}", **parts)
                if means is not None:
                    means.add(batch.items, step.z)
            if batch.twin_ids is not None and "resample" in self.order.stores:
                twin = self.shelf.get(f"twin-{number}")["hidden"]
                step, after = self.engine.clean(layer, twin)
                self.shelf.put(f"twin-{number}", hidden=after)
                if "resample" in kinds and step is not None:
                    self.shelf.put(f"twin-z-{number}", z=step.z)
        return means

    def _with(self, kind: Kind) -> Iterator[tuple[int, Batch]]:
        for number, batch in enumerate(self.batches):
            if kind != "resample" or batch.twin_ids is not None:
                yield number, batch

    def _values(
        self, layer: int, kind: Kind, *, number: int, z: Tensor, means: Means | None
    ) -> Tensor:
        """What replaces z."""
        if kind == "mean":
            assert means is not None
            return means.values(self.batches[number].items, z)
        if kind == "resample":
            return self.shelf.get(f"twin-z-{number}")["z"]
        bias = value_bias(self.engine.model, layer) if kind == "zero_folded" else None
        return torch.zeros_like(z) if bias is None else bias.expand_as(z)

    def _block(self, layer: int, kind: Kind, means: Means | None) -> pd.DataFrame:
        units = self.order.at(layer)
        heads, found = [unit.at(layer) for unit in units], self._found(units)
        for number, batch in self._with(kind):
            step = Step(**self.shelf.get(f"step-{number}"))
            values = self._values(layer, kind, number=number, z=step.z, means=means)
            resid = self.shelf.get(f"resid-{number}")["resid"]
            at_once = max(1, self.engine.rows // batch.token_ids.numel())
            for begin in range(0, len(units), at_once):
                part = slice(begin, begin + at_once)
                effect = self._effects(
                    layer, step, values - step.z, heads[part], batch=batch, resid=resid
                )
                found.take(part, batch.items, self.clean[number], *effect)
                self.tell(len(units[part]) * len(batch.items))
        return found.rows()

    def _found(self, units: Sequence[Unit]) -> Found:
        model = self.engine.model
        return Found(self.order.task, units, group_size=model.n_heads // model.n_kv_heads)

    def _effects(
        self,
        layer: int,
        step: Step,
        z_change: Tensor,
        heads: Sequence[Sequence[int]],
        *,
        batch: Batch,
        resid: Tensor,
    ) -> tuple[Scored, Tensor | None]:
        """What the items score, and the direct path's metric."""
        tail, reads = self.engine.tail, batch.reads
        stream = self.engine.after(
            layer, step, z_change, heads, reads=reads, token_ids=batch.token_ids
        )
        clean = tail.normed(resid) if self.order.kl else None
        scored = score(tail, tail.normed(stream), reads, clean=clean)
        if self.straight is None:
            return scored, None
        normed = self.straight.normed(layer, step, z_change, heads, resid=resid, reads=reads)
        return scored, None if normed is None else score(tail, normed, reads).metric

    def _keep_values(self, layer: int, kind: Kind, means: Means | None) -> None:
        for number, _ in self._with(kind):
            z = self.shelf.get(f"step-{number}")["z"]
            values = self._values(layer, kind, number=number, z=z, means=means)
            self.shelf.put(f"values-{kind}-{layer}-{number}", values=values)

    def _sets(self, kind: Kind) -> pd.DataFrame:
        """Sets that span layers: the whole model runs with all their heads replaced at once."""
        units = self.order.at(SETS)
        found = self._found(units)
        for number, batch in self._with(kind):
            resid = self.shelf.get(f"resid-{number}")["resid"]
            clean = self.engine.tail.normed(resid) if self.order.kl else None
            for at, unit in enumerate(units):
                hooks = {}
                for layer in sorted({layer for layer, _ in unit.heads}):
                    values = self.shelf.get(f"values-{kind}-{layer}-{number}")["values"]
                    projection = self.engine.parts.projection[layer]
                    hooks[projection] = replacing(values, unit.at(layer))
                with watched(before=hooks):
                    stream = self._last_stream(batch)
                normed = self.engine.tail.normed(stream)[None]
                scored = score(self.engine.tail, normed, batch.reads, clean=clean)
                found.take(slice(at, at + 1), batch.items, self.clean[number], scored)
                self.tell(len(batch.items))
        return found.rows()


def replacing(
    values: Float[Tensor, "batch pos head d_head"], heads: Sequence[int]
) -> Callable[..., tuple[tuple[Tensor, ...], dict[str, object]]]:
    """A pre-hook of an output projection that puts `values` in place of these heads' z."""

    def hook(_module: object, args: tuple[Tensor, ...], kwargs: dict[str, object]):
        z = args[0].unflatten(-1, values.shape[-2:]).clone()
        z[..., list(heads), :] = values[..., list(heads), :].to(z)
        return (z.flatten(-2), *args[1:]), kwargs

    return hook


def sweep(engine: Engine, order: Order, tell: Tell) -> None:
    """Nothing; measures what is ordered and not yet there, block by block."""
    with open_shelf(engine.model.device) as shelf:
        Sweep(engine, order, shelf, tell).run()
