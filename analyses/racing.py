"""Racing: which heads matter by more than a band, with no more items than that takes.

Items come in rounds. After each, a head is decided once its confidence sequence lies inside the
band (negligible) or outside it (helps, hurts), and is not run again. The sequence holds at all
rounds at once, so looking often costs nothing: it is the anytime-valid t interval, from the Bayes
factor of a normal prior on the effect's size in standard deviations with the scale integrated out
(Wang and Ramdas 2023; the factor is Gönen et al. 2005). What is decided is what the full sweep
would say, the mean over the task's items: they are drawn without replacement, and what is left of
them can no longer surprise. Sums of such draws behave as a Brownian bridge, which is Brownian
motion at the time n / (1 - n/N), so the interval is taken at that many items. It assumes that a
head's effects on items are about normal; the chance that any head of any task is decided otherwise
than by the full sweep is then at most `alpha`, shared out evenly. Templates are not told apart.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float

from rolecall.analyses.anatomy import plain_module
from rolecall.analyses.downstream import Engine, open_engine
from rolecall.analyses.heads import Unit, all_heads
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.item_batches import require_items
from rolecall.analyses.item_store import ItemStore, read_items, unit_columns
from rolecall.analyses.lean import lean
from rolecall.analyses.models import Model
from rolecall.analyses.replacements import Kind, require_kind
from rolecall.analyses.sweep import Order, sweep
from rolecall.analyses.tables import replace_file
from rolecall.probes.base import Task

PRIOR = 10.0
"""Variance of the prior on an effect in standard deviations; wide, for heads decided at once."""

LEAST = 1e-5
"""Spread below which arithmetic is not trusted."""

Progress = Callable[[str, int, int], None]
Effects = Float[np.ndarray, "item unit"]


@dataclass(frozen=True)
class Race:
    """How a race is run.

    Attributes:
        band: Effects within ± this are negligible, in the metric's unit.
        alpha: Chance that anything at all is decided otherwise than by the full sweep.
        first: Items of the first round; each round adds as many, or half as many again as there
            were, whichever is more.
        seed: Of the order of the items.
    """

    band: float = 0.1
    alpha: float = 0.05
    first: int = 8
    seed: int = 0


def radius(spread: np.ndarray, n: int, alpha: float, of: int | None = None) -> np.ndarray:
    """Half the width of the confidence sequence after `n` items; infinite while n is too few.

    Args:
        spread: Standard deviations of the items (n − 1 below).
        n: Items so far.
        alpha: Chance that the sequence ever leaves the mean out.
        of: How many items there are in all, if the mean is the mean of those; 0 wide at the last.
    """
    if of is not None and n >= of:
        return np.zeros(spread.shape)
    if n < 2:
        return np.full(spread.shape, np.inf)
    worth = n / (1 - n / of) if of is not None else n
    shrink = 1.0 / (1.0 + worth * PRIOR)
    # The Bayes factor ((1 + t²/ν) / (1 + shrink t²/ν))^(n/2) √shrink, solved for t at 1 / alpha.
    bound = (1.0 / (np.sqrt(shrink) * alpha)) ** (2.0 / n)
    if bound * shrink >= 1.0:
        return np.full(spread.shape, np.inf)
    t = np.sqrt((n - 1) * (bound - 1.0) / (1.0 - bound * shrink))
    return t * np.maximum(spread, LEAST) / np.sqrt(worth)


def decide(
    values: Effects, band: float, alpha: float, of: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per unit: negligible, helps, hurts or undecided, and the bounds of its mean effect."""
    mean = values.mean(axis=0)
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(mean)
    width = radius(spread, len(values), alpha, of)
    low, high = mean - width, mean + width
    said = np.full(mean.shape, "undecided", dtype=object)
    said[(low > -band) & (high < band)] = "negligible"
    said[low > band] = "helps"
    said[high < -band] = "hurts"
    return said, low, high


def race_through(
    effects: Callable[[Sequence[int], Bool[np.ndarray, " unit"]], Effects],
    n_items: int,
    n_units: int,
    rules: Race,
    *,
    n_families: int = 1,
) -> pd.DataFrame:
    """One row a unit: `decision`, `total` so far, its bounds, and the `n_items` that it took.

    Args:
        effects: From the items of a round and a mask of the units still running to their effects,
            a column for each running unit.
        n_items: Items there are.
        n_units: Units there are.
        rules: How the race is run.
        n_families: Races among which `alpha` is shared out.
    """
    order = np.random.default_rng(rules.seed).permutation(n_items)
    seen: list[np.ndarray] = [np.zeros(0) for _ in range(n_units)]
    said = np.full(n_units, "undecided", dtype=object)
    low, high = np.full(n_units, -np.inf), np.full(n_units, np.inf)
    alpha, start, stop = rules.alpha / (n_units * n_families), 0, min(rules.first, n_items)
    while start < n_items and (said == "undecided").any():
        running = said == "undecided"
        found = effects([int(i) for i in order[start:stop]], running)
        for column, unit in enumerate(np.flatnonzero(running)):
            seen[unit] = np.concatenate([seen[unit], found[:, column]])
        values = np.stack([seen[unit] for unit in np.flatnonzero(running)], axis=1)
        said[running], low[running], high[running] = decide(values, rules.band, alpha, n_items)
        start, stop = stop, min(stop + max(rules.first, stop // 2), n_items)
    return pd.DataFrame(
        {
            "decision": said.astype(str),
            "total": [float(values.mean()) for values in seen],
            "low": low,
            "high": high,
            "n_items": [len(values) for values in seen],
        }
    )


def race(
    model: Model,
    tasks: Sequence[Task],
    kind: str = "zero",
    *,
    units: Sequence[Unit] | None = None,
    rules: Race | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """One row a task and head: whether it matters by more than the band, and after how many items.

    Columns: task, layer, head, kv_group, heads, ablation, metric, decision, total, low, high (the
    confidence sequence; null where it is still unbounded), n_items, of (items there were), band,
    alpha (the chance that any decision of the table is not that of the full sweep). A mean
    replacement is taken over the other half of each round.

    Raises:
        ValueError: An item that cannot be run, no twin to resample from, or sets across layers.
    """
    rules, chosen = rules or Race(), require_kind(kind)
    if rules.band <= 0 or not 0 < rules.alpha < 1 or rules.first < 2:
        raise ValueError(
            "a race needs a band above 0, alpha between 0 and 1, and rounds of 2 items"
        )
    runners = tuple(units) if units is not None else all_heads(model)
    if not all(unit.one_layer for unit in runners):
        raise ValueError("sets of heads that span layers cannot race; use `rolecall ablate`")
    for task in tasks:
        require_items(task, model)
        if chosen == "resample" and any(i.twin_token_ids is None for i in task.items):
            raise ValueError(f"task {task.name!r} has items without twins; race with zero or mean")
    total = sum(len(task.items) for task in tasks) * len(runners)
    tables, before = [], 0
    with evaluating(plain_module(model)):
        engine = open_engine(model)
        with lean(engine.parts):
            for task in tasks:

                def told(pairs: int, name: str = task.name) -> None:
                    nonlocal before
                    before += pairs
                    if progress is not None:
                        progress(name, before, total)

                run = _Rounds(engine, task, runners, chosen, told)
                table = race_through(
                    run.effects, len(task.items), len(runners), rules, n_families=len(tasks)
                )
                told(len(task.items) * len(runners) - int(table["n_items"].sum()))
                tables.append(_named(table, task, runners, chosen, model))
    return pd.concat(tables, ignore_index=True).assign(band=rules.band, alpha=rules.alpha)


def write_race(folder: Path, rows: pd.DataFrame) -> Path:
    """The path of `race.parquet`, written whole."""
    table = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    path = folder / "race.parquet"
    replace_file(path, lambda partial: pq.write_table(table, partial))
    return path


@dataclass(frozen=True)
class _Rounds:
    """Runs the rounds of one task."""

    engine: Engine
    task: Task
    units: tuple[Unit, ...]
    kind: Kind
    told: Callable[[int], None]

    def effects(self, items: Sequence[int], running: np.ndarray) -> Effects:
        part = replace(self.task, items=tuple(self.task.items[i] for i in items))
        units = tuple(unit for unit, on in zip(self.units, running, strict=True) if on)
        with tempfile.TemporaryDirectory(prefix="rolecall-race-") as folder:
            store = ItemStore(Path(folder), "round", self.kind, "round")
            order = Order(part, units, {self.kind: store}, kl=False, direct=False)
            sweep(self.engine, order, self.told)
            store.finish(order.layers(), {})
            rows, _ = read_items(store.path)
        wide = rows.pivot(index="item", columns="heads", values="total")
        return wide[[unit.name for unit in units]].to_numpy(float)


def _named(
    table: pd.DataFrame, task: Task, units: Sequence[Unit], kind: str, model: Model
) -> pd.DataFrame:
    size = model.n_heads // model.n_kv_heads
    names = pd.DataFrame([unit_columns(unit, size) for unit in units])
    whole = ["layer", "head", "kv_group"]
    names[whole] = names[whole].astype("Int64")
    names.insert(0, "task", task.name)
    names["ablation"], names["metric"] = kind, task.metric
    rows = pd.concat([names, table], axis=1)
    rows[["low", "high"]] = rows[["low", "high"]].replace([np.inf, -np.inf], np.nan)
    rows["of"] = len(task.items)
    return rows[["task", *whole, "heads", "ablation", "metric", *table.columns, "of"]]
