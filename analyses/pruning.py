"""Pruning: what a task loses as more and more heads go, one order beside another.

Orders come from a run's numbers; what is lost is measured on items drawn anew, so that no order
gains from having been chosen on them. Beside them go random orders.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from rolecall.analyses.anatomy import plain_module
from rolecall.analyses.check import require
from rolecall.analyses.downstream import Engine, open_engine
from rolecall.analyses.heads import Unit, all_heads
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.item_store import ItemStore, fingerprint_of, read_items
from rolecall.analyses.lean import lean
from rolecall.analyses.manifest import check_folder, describe, digest, model_digest
from rolecall.analyses.models import Model
from rolecall.analyses.removal_orders import RANDOM, Ranks, Removal, read_ranks, removals
from rolecall.analyses.replacements import require_kind
from rolecall.analyses.resampling import Weights, cluster_weights, resampled_means
from rolecall.analyses.role_tasks import role_tasks
from rolecall.analyses.sweep import Order, sweep
from rolecall.analyses.tables import replace_file
from rolecall.probes.base import Task

Progress = Callable[[str, int, int], None]
"""Called with the task, the (set, item) pairs done and the pairs in all."""

RESAMPLES = 1000
SCHEMA = pa.schema(
    [("task", pa.string()), ("order", pa.string()), ("removed", pa.int64())]
    + [("metric", pa.string())]
    + [(name, pa.float64()) for name in ("value", "low", "high")]
    + [("n_items", pa.int64()), ("heads", pa.string())]
)


@dataclass(frozen=True)
class Pruning:
    """How heads are pruned.

    Attributes:
        n: Items a task, about; drawn with another seed than the run's.
        draws: Random orders.
        kind: What heads are replaced by: zero, or their mean.
        seed: Of the items and the random orders.
    """

    n: int = 12
    draws: int = 3
    kind: str = "mean"
    seed: int = 0

    def require(self) -> None:
        """Nothing, if this can be done.

        Raises:
            ValueError: It cannot.
        """
        if self.kind not in ("zero", "mean"):
            raise ValueError(f"pruned heads are replaced by zero or mean, not by {self.kind!r}")
        if self.n < 2:
            raise ValueError(f"pruning needs at least two items a task; got n={self.n}")
        if self.draws < 1:
            raise ValueError(f"pruning needs at least one random order; got draws={self.draws}")


def prune(
    model: Model,
    run: Path,
    names: Iterable[str] = (),
    *,
    how: Pruning | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The pruning table, also written to the run folder; read from there if it is there already.

    One row a task, order and number of heads removed: the task's metric then (`value`), with `low`
    and `high`, which are the 95 % interval over templates and items, and for `random` the range of
    its draws (null where there is one template, or one draw). `heads` names the removed heads
    (`L1H0+L1H3`; null for `random`). Orders are those of `removal_orders.removals`.

    Args:
        model: The run's.
        run: A run folder with scores and effects.
        names: Roles or tasks; all tasks of the run that the model can do if there are none.
        how: How many items, random orders, and so on.
        progress: Told how far the work is.

    Raises:
        ValueError: The run has no scores or effects, is of another model, or has no such task that
            the model can do.
    """
    how = how or Pruning()
    how.require()
    check_folder(run, model)
    ranks = read_ranks(run)
    every = [unit.heads[0] for unit in all_heads(model)]
    plans = [
        (task, removals(ranks, task.name, every, draws=how.draws, seed=how.seed))
        for task in _tasks(model, ranks, list(names), how)
    ]
    path = run / "pruning.parquet"
    fingerprint = digest([model_digest(describe(model)), SCHEMA.names, how, *plans])
    if fingerprint_of(path) == fingerprint:
        return pd.read_parquet(path)
    require(model)
    with evaluating(plain_module(model)):
        engine = open_engine(model)
        with lean(engine.parts):
            parts = [_task_rows(engine, *plan, how=how, progress=progress) for plan in plans]
    _write(path, pd.concat(parts, ignore_index=True), fingerprint)
    return pd.read_parquet(path)


def _tasks(model: Model, ranks: Ranks, names: Sequence[str], how: Pruning) -> list[Task]:
    tasks = role_tasks(model, names, n=how.n, seed=how.seed + 1)
    chosen = [task for task in tasks if task.name in ranks.able and len(task.items) > 1]
    if not chosen:
        wanted = ", ".join(task.name for task in tasks)
        raise ValueError(
            f"none of {wanted} can be pruned: it was not measured in this run, or the model does "
            "not do it; `rolecall ablate` says which"
        )
    return chosen


def _task_rows(
    engine: Engine,
    task: Task,
    orders: Sequence[Removal],
    *,
    how: Pruning,
    progress: Progress | None,
) -> pd.DataFrame:
    units = tuple({unit: None for order in orders for unit in order.units().values()})
    items = _measured(engine, task, units, kind=how.kind, progress=progress)
    once = items.drop_duplicates("item").set_index("item").sort_index()
    wide = items.pivot(index="item", columns="heads", values="after").assign(clean=once["clean"])
    weights = cluster_weights(list(once["template"]), n_resamples=RESAMPLES, seed=how.seed)
    rows = []
    for name in dict.fromkeys(order.name for order in orders):
        same = [order for order in orders if order.name == name]
        units_of = [order.units() for order in same]
        for n in same[0].stops:
            columns = [of[n].name if n else "clean" for of in units_of]
            values = wide[columns].to_numpy(float)
            if name == RANDOM:
                low, high = _range(values)
            else:
                low, high = _interval(values, weights) if once["template"].nunique() > 1 else NONE
            gone = units_of[0][n].name if n and name != RANDOM else None
            row = (task.name, name, n, task.metric, values.mean(), low, high, len(wide), gone)
            rows.append(row)
    return pd.DataFrame(rows, columns=SCHEMA.names)


NONE = (None, None)


def _range(values: Float[np.ndarray, "item draw"]) -> tuple[float | None, float | None]:
    means = values.mean(axis=0)
    return (float(means.min()), float(means.max())) if len(means) > 1 else NONE


def _interval(values: Float[np.ndarray, "item 1"], weights: Weights) -> tuple[float, float]:
    low, high = np.quantile(resampled_means(values, weights), (0.025, 0.975))
    return float(low), float(high)


def _measured(
    engine: Engine,
    task: Task,
    units: tuple[Unit, ...],
    *,
    kind: str,
    progress: Progress | None,
) -> pd.DataFrame:
    """Per item and set: the metric with all heads (`clean`) and without the set (`after`)."""
    done, total = 0, len(units) * len(task.items)

    def tell(pairs: int) -> None:
        nonlocal done
        done += pairs
        if progress is not None:
            progress(f"prune {task.name}", done, total)

    with tempfile.TemporaryDirectory(prefix="rolecall-prune-") as folder:
        store = ItemStore(Path(folder), task.name, kind, "pruning")
        order = Order(task, units, {require_kind(kind): store}, kl=False, direct=False)
        sweep(engine, order, tell)
        store.finish(order.layers(), {})
        rows, _ = read_items(store.path)
    worse = 1 if task.metric == "loss" else -1
    return rows.assign(after=rows["clean"] + worse * rows["total"])


def _write(path: Path, rows: pd.DataFrame, fingerprint: str) -> None:
    ordered = rows.sort_values(["task", "order", "removed"], kind="stable")
    table = pa.Table.from_pandas(ordered, schema=SCHEMA, preserve_index=False)
    note = {b"rolecall": json.dumps({"fingerprint": fingerprint}).encode()}
    noted = table.replace_schema_metadata(note)
    replace_file(path, lambda partial: pq.write_table(noted, partial))
