"""Pruning curves: how a task's metric moves as heads are removed, in several orders."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.effect_figures import UNITS
from rolecall.reports.palette import role_colour
from rolecall.reports.run import Run, rows_of
from rolecall.reports.saving import finished, new_axes, rolecall_style
from rolecall.reports.ticks import label_places

COLUMNS = ("task", "order", "removed", "metric", "value", "low", "high")
LOOKS = {
    "random": ("0.55", "-"),
    "largest effect": ("#000000", "--"),
    "smallest effect": ("#56B4E9", ":"),
}
ROLE_STYLES = ("-", "-.")


def pruning_curves(
    data: Run | pd.DataFrame, task: str, *, columns: int = 1, save: Path | None = None
) -> Axes:
    """A line for each order in which heads go, with its band; the random order is grey.

    The band of the random order is the range of its draws, any other the 95 % interval. The order
    by a role's score has the heads with its label first.

    Args:
        data: A run with a table `pruning`, or its rows (see `rolecall.analyses.pruning.prune`).
        task: Its name.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: A column is missing, or there is no such task.
    """
    table = rows_of(data, "pruning")
    lacking = [name for name in COLUMNS if name not in table.columns]
    if lacking:
        raise ValueError(f"the pruning table lacks the columns {', '.join(lacking)}")
    rows = table[table["task"] == task]
    if rows.empty:
        there = ", ".join(sorted(set(table["task"])))
        raise ValueError(f"task {task!r} was not pruned; there are {there}")
    metric = str(rows["metric"].iloc[0])
    with rolecall_style():
        axes = new_axes(columns, 2.7)
        roles = [name for name in sorted(set(rows["order"])) if name not in LOOKS]
        looks = {r: (role_colour(r), ROLE_STYLES[i % 2]) for i, r in enumerate(roles)}
        for order, (colour, style) in {**LOOKS, **looks}.items():
            part = rows[rows["order"] == order].sort_values("removed", kind="stable")
            if part.empty:
                continue
            low, high = part["low"].astype(float), part["high"].astype(float)
            axes.fill_between(part["removed"], low, high, color=colour, alpha=0.18, lw=0)
            name = order if order in LOOKS else f"{order.replace('_', ' ')} score"
            dot = "" if order in LOOKS else "o"  # so that it is not taken for the random order
            look = {"color": colour, "ls": style, "lw": 1.3, "marker": dot, "ms": 3}
            axes.plot(part["removed"], part["value"], label=name, **look)
        axes.set_xscale("symlog", linthresh=4, linscale=1.2)
        most = int(rows["removed"].max())
        axes.set_xlim(0, most)
        powers = [2**k for k in range(most.bit_length())]
        label_places(axes, [0, *powers], apart=0.11 / columns)
        unit = f" ({UNITS[metric]})" if metric in UNITS else ""
        axes.set(xlabel="heads removed", ylabel=f"{metric.replace('_', ' ')}{unit}")
        axes.set_title(task.replace("_", " "), loc="left")
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.legend(loc="outside lower center", ncols=2 * columns, columnspacing=1.2)
        return finished(axes, rows, save)
