"""Pruning curves: how a metric falls as heads are removed, in several orders."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.run import Run, rows_of
from rolecall.reports.saving import finished, new_axes, rolecall_style

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STYLES = ("-", "--", "-.", ":")


def pruning_curves(data: Run | pd.DataFrame, *, columns: int = 1, save: Path | None = None) -> Axes:
    """A line for each order of removal, with its band; the random order is grey.

    Args:
        data: A run with a table `pruning`, or rows with `order`, `removed`, `metric` and, where
            there is a band, `low` and `high`.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: A column is missing.
    """
    rows = rows_of(data, "pruning")
    lacking = [name for name in ("order", "removed", "metric") if name not in rows.columns]
    if lacking:
        raise ValueError(f"pruning curves need the columns {', '.join(lacking)}")
    with rolecall_style():
        axes = new_axes(columns, 2.5)
        plain = [name for name in sorted(set(rows["order"])) if name != "random"]
        for i, order in enumerate(["random", *plain]):
            part = rows[rows["order"] == order].sort_values("removed", kind="stable")
            if part.empty:
                continue
            colour = "0.55" if order == "random" else COLOURS[(i - 1) % len(COLOURS)]
            style = "-" if order == "random" else STYLES[(i - 1) % len(STYLES)]
            axes.plot(part["removed"], part["metric"], color=colour, ls=style, lw=1.2, label=order)
            if {"low", "high"} <= set(part.columns) and part["low"].notna().any():
                low, high = part["low"].astype(float), part["high"].astype(float)
                axes.fill_between(part["removed"], low, high, color=colour, alpha=0.2, lw=0)
        axes.set(xlabel="heads removed", ylabel="metric")
        axes.legend(title="order of removal", title_fontsize=7)
        return finished(axes, rows, save)
