"""Ablate: what each head contributes to each task, by replacing its write and looking what changes.

Per item, for every head, task and kind of replacement: the total effect (everything downstream runs
again), the direct effect (the write alone, through the frozen final norm), and the KL of the
predictions. The effects table is worked out from these files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from rolecall.analyses.ability import ability_in_words
from rolecall.analyses.anatomy import plain_module
from rolecall.analyses.check import require
from rolecall.analyses.damage import natural_text
from rolecall.analyses.direct import straight
from rolecall.analyses.downstream import ROWS, Engine, open_engine
from rolecall.analyses.effects import DAMAGE, effects_table
from rolecall.analyses.heads import Unit, all_heads, kv_groups, parse_units
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.item_batches import require_items
from rolecall.analyses.item_store import ItemStore, read_items
from rolecall.analyses.lean import lean
from rolecall.analyses.manifest import Manifest, check_folder, digest
from rolecall.analyses.models import Model
from rolecall.analyses.replacements import Kind, halves, require_kind, value_bias
from rolecall.analyses.run_folder import folder_for
from rolecall.analyses.sweep import Order, sweep
from rolecall.analyses.tables import write_table
from rolecall.probes.base import Task

Progress = Callable[[str, int, int], None]
"""Called with the task, the (head, item) pairs done and the pairs in all."""

DEFAULT_KINDS: tuple[Kind, ...] = ("zero", "mean", "resample")
DAMAGE_PASSAGES = 16


@dataclass(frozen=True)
class Effects:
    """What an ablation found.

    Attributes:
        folder: The run folder.
        table: The effects table (design §6, and further columns behind).
        manifest: What was run, on what.
        notes: What a reader must know: tasks that the model cannot do, kinds that were left out.
    """

    folder: Path
    table: pd.DataFrame
    manifest: dict[str, Any]
    notes: tuple[str, ...] = ()

    def items(self, task: str, kind: str) -> pd.DataFrame:
        """Per-item effects of a task under a kind of replacement.

        Raises:
            ValueError: That was not measured.
        """
        path = self.folder / "effects" / "items" / f"{task}-{kind}.parquet"
        if not path.is_file():
            raise ValueError(f"there are no effects of {kind!r} on task {task!r} in {self.folder}")
        return read_items(path)[0]

    def top(self, n: int = 5) -> pd.DataFrame:
        """The `n` heads with the largest effect, of either sign, for each task and kind."""
        size = self.table["total"].abs()
        ranked = self.table.assign(size=size).sort_values(
            ["task", "ablation", "size"], ascending=[True, True, False], kind="stable"
        )
        top = ranked.groupby(["task", "ablation"], sort=False).head(n)
        return top.drop(columns="size").reset_index(drop=True)

    def _repr_html_(self) -> str:
        """What a notebook shows: the leading heads."""
        names = ["task", "ablation", "heads", "clean", "total", "total_low", "total_high"]
        return self.top()[[*names, "direct", "generic_damage", "interpretable"]].to_html()


@dataclass(frozen=True)
class Settings:
    """How an ablation is made.

    Attributes:
        heads: Names like `L5H1`, or `L5H1+L6H0` for a set removed together; none for all heads.
        group: "kv" to remove the query heads of a KV group together.
        seed: Of the resampling, and of the natural text.
        kl: KL is worked out as well.
        damage: Passages of natural text on which generic damage is measured; 0 for none.
        rows: Tokens that run at once.
    """

    heads: tuple[str, ...] = ()
    group: str | None = None
    seed: int = 0
    kl: bool = True
    damage: int = DAMAGE_PASSAGES
    rows: int = ROWS

    def units(self, model: Model) -> tuple[Unit, ...]:
        """What is removed.

        Raises:
            ValueError: A head that the model does not have, or an unknown group.
        """
        named = parse_units(self.heads, model) if self.heads else None
        if self.group is None:
            return named or all_heads(model)
        if self.group != "kv":
            raise ValueError(f"heads are grouped by kv, not by {self.group!r}")
        return kv_groups(model, named)


def ablate(
    model: Model,
    tasks: Task | Iterable[Task],
    kinds: Iterable[str] = DEFAULT_KINDS,
    *,
    settings: Settings | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Effects:
    """Every head's effect on every task under every kind of replacement.

    Effects are oriented: positive means that the model does the task worse without the head.

    Args:
        model: From `load_model`; it needs a language-model head and the Hugging Face module.
        tasks: What the model should do; see `rolecall.probes.base.Task`.
        kinds: zero, zero_folded (zero, but `b_V` stays), mean, resample (the twin's value).
        settings: Which heads, how many passages of text, and so on.
        out: The run folder; if None, one that is gone when Python ends. Finished (task, kind,
            layer) blocks that are there already, for this model, data and settings, are not run
            again.
        progress: Told how far the work is.

    Raises:
        ValueError: An unknown head or kind, an item that cannot be run, a model that has no logits
            or does not pass `check`: no table is written.
    """
    settings = settings or Settings()
    wanted: tuple[Kind, ...] = tuple(dict.fromkeys(require_kind(kind) for kind in kinds))
    asked = [tasks] if isinstance(tasks, Task) else list(tasks)
    _require_tasks(asked, wanted, model)
    units = settings.units(model)
    require(model)
    folder = folder_for(out)
    check_folder(folder, model)
    manifest = Manifest.of(model, ablation=_described(model, wanted, settings))
    todo = _with_damage(asked, model, settings)
    with evaluating(plain_module(model)):
        engine = open_engine(model, rows=settings.rows)
        run = _Run(engine, folder, units, wanted, settings, manifest.model_digest(), progress)
        with lean(engine.parts):
            run.measure(todo, manifest)
    return _finish(folder, todo, manifest, run)


@dataclass
class _Run:
    """What stays the same from task to task."""

    engine: Engine
    folder: Path
    units: tuple[Unit, ...]
    kinds: tuple[Kind, ...]
    settings: Settings
    model_digest: str
    progress: Progress | None
    notes: list[str] = field(default_factory=list)
    done: int = 0

    def measure(self, tasks: Sequence[Task], manifest: Manifest) -> None:
        """Nothing; writes each task's per-item files."""
        kinds = {task.name: self._kinds_for(task) for task in tasks}
        total = sum(
            len(self.units) * _n_items(task, kind) for task in tasks for kind in kinds[task.name]
        )
        for task in tasks:
            manifest.add_task(task)
            started = time.perf_counter()
            stores: dict[Kind, ItemStore] = {
                kind: self._store(task, kind) for kind in kinds[task.name]
            }
            self._sweep(task, stores, total)
            manifest.timed(f"ablate {task.name}", started)

    def _sweep(self, task: Task, stores: Mapping[Kind, ItemStore], total: int) -> None:
        left: dict[Kind, ItemStore] = {
            kind: store for kind, store in stores.items() if not store.finished()
        }
        before = self.done

        def tell(pairs: int) -> None:
            self.done += pairs
            if self.progress is not None:
                self.progress(task.name, self.done, total)

        if left:
            # A table of an earlier, other run must not stand beside half of this one.
            (self.folder / "effects.parquet").unlink(missing_ok=True)
            order = Order(task, self.units, left, kl=self.settings.kl)
            sweep(self.engine, order, tell)
            for kind, store in left.items():
                store.finish(order.layers(), self._facts(task, kind))
        pairs = sum(len(self.units) * _n_items(task, kind) for kind in stores)
        tell(before + pairs - self.done)

    def _kinds_for(self, task: Task) -> tuple[Kind, ...]:
        fit = []
        for kind in self.kinds:
            if kind == "resample" and not _n_items(task, kind):
                self.notes.append(f"{task.name}: its items have no twins, so no resampling")
            elif kind == "mean" and len(task.items) < 2:
                self.notes.append(f"{task.name}: one item leaves nothing to take a mean over")
            else:
                fit.append(kind)
        return tuple(fit)

    def _store(self, task: Task, kind: Kind) -> ItemStore:
        made_of = [self.model_digest, task, kind, [u.name for u in self.units], self.settings.kl]
        return ItemStore(self.folder / "effects", task.name, kind, digest(made_of))

    def _facts(self, task: Task, kind: Kind) -> dict[str, Any]:
        model, way = self.engine.model, straight(self.engine)
        return {
            "metric": task.metric,
            "dtype": str(model.dtype).removeprefix("torch."),
            "d_vocab": model.d_vocab,
            "direct_exact": None if way is None else way.exact,
            "replaced_by": _replaced_by(task, kind),
            "dropped": dict(task.dropped),
            "route": self.engine.route,
        }


def _finish(folder: Path, tasks: Sequence[Task], manifest: Manifest, run: _Run) -> Effects:
    paths = sorted((folder / "effects" / "items").glob("*.parquet"))
    table = effects_table(paths, seed=run.settings.seed)
    written = manifest.write(folder)
    write_table(folder, "effects", table)
    names = {task.name for task in tasks}
    cannot = table[~table["interpretable"] & table["task"].isin(names)]
    for name, rows in cannot.groupby("task"):
        able = ability_in_words(rows.iloc[0].to_dict())
        run.notes.append(
            f"{name}: the model is not shown to do it ({able}); effects are not interpretable"
        )
    for task in tasks:
        if not task.items:
            why = ", ".join(f"{n} × {w}" for w, n in sorted(task.dropped.items()))
            run.notes.append(f"{task.name}: no items" + (f" ({why})" if why else ""))
    return Effects(folder, table, written, tuple(run.notes))


def _require_tasks(tasks: Sequence[Task], kinds: Sequence[Kind], model: Model) -> None:
    if not tasks:
        raise ValueError("there is no task to measure effects on")
    if not kinds:
        raise ValueError("no kind of replacement is named; use zero, mean or resample")
    model.require_lm_head()
    names = [task.name for task in tasks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two tasks are named {twice[0]!r}; names must differ")
    for task in tasks:
        require_items(task, model)
        if task.name == DAMAGE and task.metric != "loss":
            raise ValueError(
                f"a task named {DAMAGE!r} gives the generic damage, so it is a loss; give this "
                f"{task.metric.replace('_', ' ')} task (its file) another name"
            )


def _with_damage(tasks: Sequence[Task], model: Model, settings: Settings) -> list[Task]:
    if not settings.damage or model.tokenizer is None or DAMAGE in [t.name for t in tasks]:
        return list(tasks)
    text = natural_text(model.aligner, n=settings.damage, seed=settings.seed)
    return [*tasks, text] if text.items else list(tasks)


def _described(model: Model, kinds: Sequence[Kind], settings: Settings) -> dict[str, Any]:
    biased = [layer for layer in model.pattern_layers if value_bias(model, layer) is not None]
    return {
        "kinds": list(kinds),
        "heads": list(settings.heads) or "all",
        "group": settings.group,
        "seed": settings.seed,
        "damage_passages": settings.damage,
        "value_biases": {
            "layers": biased,
            "zero": "raw: the constant b_V W_O goes with the head" if biased else "there are none",
        },
    }


def _replaced_by(task: Task, kind: Kind) -> str:
    if kind == "mean":
        return halves(task.items).described()
    return {
        "zero": "zero",
        "zero_folded": "its value bias",
        "resample": "its value on the twin",
    }[kind]


def _n_items(task: Task, kind: Kind) -> int:
    twins = [item for item in task.items if item.twin_token_ids is not None]
    return len(twins) if kind == "resample" else len(task.items)
