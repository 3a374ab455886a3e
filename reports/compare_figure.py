"""Where in depth each role lives, in several runs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.depth import say_nothing
from rolecall.reports.saving import finished, new_axes, rolecall_style
from rolecall.reports.visible import shortened

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
"""One more than colours, so that a pair comes again only after 72 runs."""
NAME_ROOM = 22
"""Letters of a run's name in the legend."""
PAGE = 8.6
"""Inches: what a page of a paper has room for, with a line below the figure."""


def depth_comparison(depths: pd.DataFrame, *, columns: int = 1, save: Path | None = None) -> Axes:
    """A mark for each role and run at the mean relative depth of its heads, a line for the range.

    Args:
        depths: From `rolecall.analyses.compare.role_depths`.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.
    """
    order = list(depths.groupby("role")["depth"].mean().sort_values(kind="stable").index)
    runs = list(dict.fromkeys(depths["run"]))
    with rolecall_style():
        legend = -(-len(runs) // (2 * columns))
        rows = (0.16 + 0.1 * len(runs)) * max(len(order), 2)
        height = min(0.7 + 0.15 * legend + rows, PAGE)
        axes = new_axes(columns, height)
        # Marks of one role stand below one another: as far apart as the page allows, so as large.
        apart = 72 * 0.7 * (height - 0.7 - 0.15 * legend) / max(len(order), 2) / max(len(runs), 2)
        size = min(4.0, max(apart, 2.0)) ** 2
        drawn = []
        for i, run in enumerate(runs):
            rows = depths[depths["run"] == run]
            shift = (i - (len(runs) - 1) / 2) * 0.7 / max(len(runs), 2)
            at = [order.index(role) + shift for role in rows["role"]]
            colour = COLOURS[i % len(COLOURS)]
            axes.hlines(at, rows["first"], rows["last"], color=colour, lw=0.8)
            mark = {"s": size, "color": colour, "marker": MARKS[i % len(MARKS)]}
            drawn.append(axes.scatter(rows["depth"], at, **mark))
        axes.set_yticks(range(len(order)), labels=[str(role).replace("_", " ") for role in order])
        axes.set(xlim=(-0.03, 1.03), ylim=(len(order) - 0.4, -0.6))
        axes.set_xlabel("relative depth (0 first layer, 1 last)")
        axes.tick_params(axis="y", length=0)
        if not len(order):
            say_nothing(axes, "no head has a label in any run")
            return finished(axes, depths, save)
        figure = axes.get_figure(root=True)
        assert figure is not None
        # A name that begins with _ would be dropped from a legend; a space before it does not show.
        names = [f" {run}" if str(run).startswith("_") else str(run) for run in runs]
        names = [shortened(name, NAME_ROOM) for name in names]
        figure.legend(drawn, names, loc="outside lower center", ncols=min(len(runs), 2 * columns))
        return finished(axes, depths, save)
