"""Recall of role labels against noise on planted weights, one line a role."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.point_labels import label_points
from rolecall.reports.saving import finished, new_axes, rolecall_style


def recall_curve(table: pd.DataFrame, *, columns: int = 1, save: Path | None = None) -> Axes:
    """Recall at each noise level: all roles in grey, their mean in black.

    A role is named at the level where its recall falls, those that fall first before others.

    Args:
        table: Columns role, noise, recall, as `rolecall.analyses.precision.noise_curve` gives.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: A column is missing, or no role has a recall.
    """
    missing = {"role", "noise", "recall"} - set(table.columns)
    if missing:
        raise ValueError(f"the table has no column {', '.join(sorted(missing))}")
    rows = table[table["recall"].notna()].sort_values(["role", "noise"])
    if rows.empty:
        raise ValueError("no role has a recall to draw")
    levels = sorted(rows["noise"].unique())
    place = {level: i for i, level in enumerate(levels)}
    with rolecall_style():
        axes = new_axes(columns, 2.4)
        for _, curve in rows.groupby("role"):
            axes.plot(curve["noise"].map(place), curve["recall"], color="0.75", lw=0.8, zorder=1)
        mean = rows.groupby("noise")["recall"].mean()
        axes.plot(mean.index.map(place), mean, color="black", marker="o", ms=3, zorder=2)
        axes.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        axes.set_ylim(-0.03, 1.05)
        axes.set_xlabel("noise (share of the weights' root mean square)")
        axes.set_ylabel("recall")
        fallen = rows[rows["recall"] < 1].sort_values("noise").drop_duplicates("role")
        along = np.linspace(0, len(levels) - 1, 12 * len(levels))
        line = [*zip(along, np.interp(along, range(len(levels)), mean), strict=True)]
        names = [role.replace("_", " ") for role in fallen["role"]]
        at = [*fallen["noise"].map(place)]
        label_points(axes, at, [*fallen["recall"]], names, avoid=line, size=5)
        return finished(axes, rows, save)
