"""What a block of a sweep found, as arrays while it runs and as rows once it is whole.

A number for each unit and item is all that is held: no table for each batch, so memory grows with
the numbers themselves and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.heads import Unit
from rolecall.analyses.item_store import unit_columns
from rolecall.analyses.metrics import Scored, worsening
from rolecall.probes.base import Task

MEASURED = ("total", "direct", "kl")


@dataclass(frozen=True)
class Clean:
    """What the model does on a batch when nothing is removed.

    Attributes:
        metric: The task's metric for each item.
        control: For a loss: the loss if each item's targets were another item's; NaN if alone.
    """

    metric: Float[Tensor, " batch"]
    control: Float[Tensor, " batch"]


class Found:
    """The numbers of some units on the items of a task, as they come.

    Args:
        task: Its items and its metric.
        units: What is removed.
        group_size: Query heads that share a KV group.
    """

    def __init__(self, task: Task, units: Sequence[Unit], *, group_size: int):
        self._task, self._units, self._group_size = task, tuple(units), group_size
        n_items = len(task.items)
        self._seen = np.zeros(n_items, dtype=bool)
        self._clean = {name: np.full(n_items, np.nan) for name in ("clean", "control")}
        self._units_by_item = {name: np.full((len(units), n_items), np.nan) for name in MEASURED}

    def take(
        self,
        units: slice,
        items: Sequence[int],
        clean: Clean,
        scored: Scored,
        direct: Float[Tensor, "unit batch"] | None = None,
    ) -> None:
        """Nothing; takes in what these units do on a batch, and their direct path's metric."""
        at, metric = list(items), self._task.metric
        self._seen[at] = True
        self._clean["clean"][at], self._clean["control"][at] = map(
            _numbers, (clean.metric, clean.control)
        )
        found = {"total": worsening(metric, clean.metric, scored.metric), "kl": scored.kl}
        if direct is not None:
            found["direct"] = worsening(metric, clean.metric, direct)
        for name, values in found.items():
            if values is not None:
                self._units_by_item[name][units, at] = _numbers(values)

    def rows(self) -> pd.DataFrame:
        """One row a unit and item that was run, unit after unit."""
        items = np.flatnonzero(self._seen)
        n_items, n_units = len(items), len(self._units)
        names = [unit_columns(unit, self._group_size) for unit in self._units]
        templates = [self._task.items[i].template for i in items]
        rows = pd.DataFrame({"item": np.tile(items, n_units), "template": templates * n_units})
        for name in ("heads", "layer", "head", "kv_group"):
            values = pd.array([n[name] for n in names], dtype=None if name == "heads" else "Int64")
            rows[name] = values.repeat(n_items)
        for name, values in self._clean.items():
            rows[name] = np.tile(values[items], n_units)
        for name, values in self._units_by_item.items():
            rows[name] = values[:, items].ravel()
        return rows


def _numbers(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()
