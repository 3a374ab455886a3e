"""Path patching, head to head: what one head's write does to another's queries, keys or values.

The sender's write is changed (to what takes its place), and reaches the receiver's input straight
along the residual stream: every head and MLP in between stays as it was. Of the receiver only its
queries, or keys, or values see the change; what it then hands over is put into an otherwise clean
run, and the rest of the model follows (Wang et al. 2023; Goldowsky-Dill et al. 2023). With grouped
queries the keys and values belong to the group, but only the receiver itself sees the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from rolecall.analyses.anatomy import plain_module, watched
from rolecall.analyses.direct import after_attention
from rolecall.analyses.downstream import Engine, Step, open_engine
from rolecall.analyses.effects import interval_and_p
from rolecall.analyses.entrances import ENTRIES, Entry, entrance
from rolecall.analyses.head_names import Head, head_name, require_before
from rolecall.analyses.heads import parse_head, parse_units
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.item_batches import Batch, Reads, batches, require_items
from rolecall.analyses.metrics import score, worsening
from rolecall.analyses.models import Model
from rolecall.analyses.replacements import require_kind, spread, value_bias
from rolecall.analyses.tables import replace_file
from rolecall.analyses.without import reference_means
from rolecall.probes.base import Task

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class PathSettings:
    """How paths are measured.

    Attributes:
        kind: What takes the place of the sender's z: zero, zero_folded, mean (over natural text)
            or resample.
        senders: Names of earlier heads; none for all of them.
        seed: Of the resampling.
    """

    kind: str = "zero"
    senders: tuple[str, ...] = ()
    seed: int = 0


def paths(
    model: Model,
    task: Task,
    to: str,
    *,
    settings: PathSettings | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """One row for each earlier head and each of the receiver's inputs, largest effect first.

    Columns: the sender (`layer`, `head`, `kv_group`, `heads`), `receiver`, `entry` (q, k or v),
    `ablation`, `metric`, `clean`, `total` (positive: the model does the task worse) with its
    interval and p-values, `moved`: how far the receiver's attention at the places that are read
    moves (total variation, 0 to 1), and `n_items`.

    Raises:
        ValueError: An unknown head, a receiver in the first layer, a model whose writes do not add
            up (encoders) or whose queries, keys and values cannot be told apart.
    """
    settings = settings or PathSettings()
    receiver, module = parse_head(to, model), plain_module(model)
    require_kind(settings.kind)
    require_items(task, model)
    if not model.causal:
        raise ValueError(f"{model.name} norms the sum after each block, so writes do not add up")
    if settings.kind == "resample" and any(i.twin_token_ids is None for i in task.items):
        raise ValueError(f"task {task.name!r} has items without twins, so nothing to resample from")
    senders = _senders(model, receiver, settings.senders)
    means = None
    if settings.kind == "mean":
        means = reference_means(model, sorted({layer for layer, _ in senders}))
    with evaluating(module), eager(module):
        engine = open_engine(model)
        patch = _Patch(engine, task, receiver, settings.kind, means)
        parts, done = [], 0
        for batch in batches(task, model, tokens=engine.rows):
            parts.append(patch.run(batch, senders))
            done += len(batch.items)
            if progress is not None:
                progress(f"to {to}", done * len(senders), len(task.items) * len(senders))
    rows = _table(model, task, receiver, senders, parts=parts, settings=settings)
    # A proof that they were told apart: where a head looks does not depend on its values.
    limit = 1e-5 if model.dtype == torch.float32 else 1e-2
    if float(rows.loc[rows["entry"] == "v", "moved"].max()) > limit:
        raise ValueError(f"{model.name}: its queries, keys and values cannot be told apart")
    return rows


def _senders(model: Model, receiver: Head, names: Sequence[str]) -> list[Head]:
    if names:
        chosen = sorted({head for unit in parse_units(names, model) for head in unit.heads})
        require_before(receiver, chosen)
        return chosen
    before = [layer for layer in model.pattern_layers if layer < receiver[0]]
    if not before:
        raise ValueError(f"{head_name(receiver)} is in the first layer: no head comes before it")
    return [(layer, head) for layer in before for head in range(model.n_heads)]


@contextmanager
def eager(module: Any) -> Iterator[None]:
    """Inside, attention is computed with its pattern; afterwards as before."""
    was = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        yield
    finally:
        module.set_attn_implementation(was)


@dataclass(frozen=True)
class Found:
    """One batch: worsening and moved attention, [entry sender batch], and the clean metric."""

    items: tuple[int, ...]
    total: np.ndarray
    moved: np.ndarray
    clean: np.ndarray


@dataclass
class _Patch:
    """One receiver on one task."""

    engine: Engine
    task: Task
    receiver: Head
    kind: str
    means: Mapping[int, Tensor] | None

    def run(self, batch: Batch, senders: Sequence[Head]) -> Found:
        engine, layer = self.engine, self.receiver[0]
        twins = self._twin_z(batch) if self.kind == "resample" else {}
        hidden, writes = engine.start(batch.token_ids), []
        for at in range(layer):
            step, hidden = engine.clean(at, hidden)
            heads = [head for where, head in senders if where == at]
            if step is not None and heads:
                writes.append(self._writes(at, step, heads, twins.get(at)))
        step, after = engine.clean(layer, hidden)
        assert step is not None
        for at in range(layer + 1, len(engine.parts.blocks)):
            _, after = engine.clean(at, after)
        tail, reads = engine.tail, batch.reads
        clean = score(tail, tail.normed(after[reads.row, reads.pos])[None], reads).metric[0]
        change = torch.cat(writes)
        total, moved = [], []
        at_once = max(1, engine.rows // batch.token_ids.numel())
        for entry in ENTRIES:
            pieces = [self._enter(entry, step, part, batch=batch) for part in change.split(at_once)]
            metric = torch.cat([piece[0] for piece in pieces])
            total.append(worsening(self.task.metric, clean, metric))
            moved.append(torch.cat([piece[1] for piece in pieces]))
        return Found(batch.items, _numbers(total), _numbers(moved), _numbers([clean])[0])

    def _twin_z(self, batch: Batch) -> dict[int, Tensor]:
        assert batch.twin_ids is not None
        hidden, kept = self.engine.start(batch.twin_ids), {}
        for at in range(self.receiver[0]):
            step, hidden = self.engine.clean(at, hidden)
            if step is not None:
                kept[at] = step.z
        return kept

    def _writes(
        self, layer: int, step: Step, heads: Sequence[int], twin: Tensor | None
    ) -> Float[Tensor, "sender batch pos d_model"]:
        """How the residual stream changes right after the layer's attention."""
        z, model = step.z, self.engine.model
        bias = value_bias(model, layer) if self.kind == "zero_folded" else None
        if twin is not None:
            new = twin
        elif self.means is not None:
            new = spread(self.means[layer], z.shape[1]).to(z).expand_as(z)
        else:
            new = torch.zeros_like(z) if bias is None else bias.expand_as(z)
        change = self.engine.change(layer, new - z, [(head,) for head in heads])
        norm = after_attention(self.engine, layer)
        return change if norm is None else norm(step.attn_out + change) - norm(step.attn_out)

    def _enter(
        self, entry: Entry, step: Step, change: Tensor, *, batch: Batch
    ) -> tuple[Tensor, Tensor]:
        """The metric, [sender batch], and how far the receiver's attention moved."""
        layer, head = self.receiver
        n = len(change)
        stack = Step(*(repeat(t, "b ... -> (s b) ...", s=n) for t in _parts(step)))
        patched = stack.hidden + rearrange(change, "s b p d -> (s b) p d")
        z, pattern = self._attend(entry, stack.hidden, patched)
        _, before = self._attend(None, step.hidden, step.hidden)
        z_change = torch.zeros_like(stack.z)
        z_change[:, :, head] = z[:, :, head] - stack.z[:, :, head]
        reads, ids = tiled(batch.reads, n), repeat(batch.token_ids, "b p -> (s b) p", s=n)
        stream = self.engine.after(layer, stack, z_change, [(head,)], reads=reads, token_ids=ids)
        scored = score(self.engine.tail, self.engine.tail.normed(stream), reads)
        rows = rearrange(pattern[:, head], "(s b) q k -> s b q k", s=n)
        place = batch.reads.row, batch.reads.pos
        off = (rows[:, place[0], place[1]] - before[place[0], head, place[1]]).abs().sum(-1) / 2
        return rearrange(scored.metric[0], "(s b) -> s b", s=n), batch.reads.per_item(off)

    def _attend(
        self, entry: Entry | None, hidden: Tensor, patched: Tensor
    ) -> tuple[Float[Tensor, "batch pos head d_head"], Float[Tensor, "batch head query key"]]:
        """The receiver's layer, with one of its inputs computed from the patched stream."""
        engine, layer = self.engine, self.receiver[0]
        attention, projection = engine.parts.attention[layer], engine.parts.projection[layer]
        hooks: dict[nn.Module, Any] = {}
        if entry is not None:
            source, columns = entrance(attention, entry, engine.model)
            kept: dict[str, Tensor] = {}
            watch = {source: lambda _m, _i, out: kept.update(out=out)}
            with watched(after=watch):
                engine.attend(layer, patched)
            hooks[source] = lambda _m, _i, out: columns(out, kept["out"])
        z: dict[str, Tensor] = {}
        with watched({projection: lambda _m, args, _k: z.update(z=args[0])}, hooks):
            output = engine.attend(layer, hidden)
        return engine.by_head(z["z"]), output[1]


def _parts(step: Step) -> tuple[Tensor, Tensor, Tensor]:
    return step.hidden, step.z, step.attn_out


def tiled(reads: Reads, n: int) -> Reads:
    """The same reads in `n` copies of the batch, one behind the other."""
    shift = torch.arange(n, device=reads.row.device) * reads.n_items
    row = (shift[:, None] + reads.row).flatten()
    foil = None if reads.foil is None else reads.foil.repeat(n)
    return Reads(row, reads.pos.repeat(n), reads.answer.repeat(n), foil, n * reads.n_items)


def _table(
    model: Model,
    task: Task,
    receiver: Head,
    senders: Sequence[Head],
    *,
    parts: Sequence[Found],
    settings: PathSettings,
) -> pd.DataFrame:
    order = np.argsort([item for part in parts for item in part.items])
    total, moved = (
        np.concatenate([getattr(part, name) for part in parts], axis=-1)[..., order]
        for name in ("total", "moved")
    )
    clean = np.concatenate([part.clean for part in parts])[order]
    templates = [item.template for item in task.items]
    flat = rearrange(total, "entry sender item -> item (entry sender)")
    found = interval_and_p(flat, templates, seed=settings.seed, dtype=str(model.dtype))
    size = model.n_heads // model.n_kv_heads
    rows = pd.DataFrame(
        [
            {
                "task": task.name,
                "layer": layer,
                "head": head,
                "kv_group": head // size,
                "heads": head_name((layer, head)),
                "receiver": head_name(receiver),
                "entry": entry,
                "ablation": settings.kind,
                "metric": task.metric,
            }
            for entry in ENTRIES
            for layer, head in senders
        ]
    )
    rows = pd.concat([rows, found], axis=1)
    rows.insert(9, "clean", clean.mean())
    rows["moved"] = rearrange(moved, "entry sender item -> (entry sender) item").mean(axis=1)
    rows["n_items"] = len(templates)
    by_size = rows["total"].abs().sort_values(ascending=False, kind="stable").index
    return rows.loc[by_size].reset_index(drop=True)


def write_paths(folder: Path, to: str, rows: pd.DataFrame) -> Path:
    """The path of `paths-HEAD.parquet`, written whole, with a .csv of the same rows beside it."""
    table = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    path = folder / f"paths-{to.upper()}.parquet"
    replace_file(path, lambda partial: pq.write_table(table, partial))
    replace_file(path.with_suffix(".csv"), lambda partial: rows.to_csv(partial, index=False))
    return path


def _numbers(parts: Sequence[Tensor]) -> np.ndarray:
    return torch.stack(list(parts)).double().cpu().numpy()
