"""The layer × head map of one role: one cell a head, significant ones outlined."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rolecall.reports.saving import rolecall_style

MOST_LABELS = 24
"""More layers or heads than this, and their labels are thinned."""


def role_heatmap(scores: pd.DataFrame, role: str, *, column: str = "score") -> Figure:
    """A figure of one column of the scores table for one role, layers down and heads across.

    Heads without evidence are hatched. A head is outlined where the role is significant for it
    among all heads and roles (`p_max` < .05) and its margin's interval is above zero.

    Raises:
        ValueError: The table has no such role or column.
    """
    if column not in scores.columns:
        raise ValueError(f"the scores table has no column {column!r}")
    rows = scores[scores["role"] == role]
    if rows.empty:
        known = ", ".join(sorted(scores["role"].unique()))
        raise ValueError(f"the scores table has no role {role!r}; it has {known}")
    n_layers, n_heads = int(rows["layer"].max()) + 1, int(rows["head"].max()) + 1
    with rolecall_style():
        width, height = 1.6 + 0.28 * min(n_heads, 40), 1.1 + 0.2 * min(n_layers, 48)
        figure, axes = plt.subplots(figsize=(max(width, 3.4), max(height, 2.2)))
        _draw(axes, rows, column, (n_layers, n_heads))
        axes.set_title(f"{role} ({rows['score_kind'].iloc[0]})")
    plt.close(figure)
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, column: str, shape: tuple[int, int]) -> None:
    grid = np.full(shape, np.nan)
    grid[rows["layer"], rows["head"]] = rows[column].astype(float)
    sns.heatmap(
        pd.DataFrame(grid),
        ax=axes,
        cmap="cividis",
        vmin=min(0.0, float(np.nanmin(grid))),
        vmax=1.0 if column == "score" else None,
        linewidths=0.3,
        linecolor="white",
        xticklabels=_every(shape[1]),
        yticklabels=_every(shape[0]),
        cbar_kws={"label": column.replace("_", " ")},
    )
    axes.set(xlabel="head", ylabel="layer")
    axes.tick_params(rotation=0, length=0)
    for layer, head in np.argwhere(np.isnan(grid)):
        cell = Rectangle((head, layer), 1, 1, hatch="////", fill=False, edgecolor="0.7", lw=0)
        axes.add_patch(cell)
    for layer, head in rows.loc[_significant(rows), ["layer", "head"]].itertuples(index=False):
        cell = Rectangle(
            (head, layer), 1, 1, fill=False, edgecolor="#D55E00", lw=1.2, clip_on=False
        )
        axes.add_patch(cell)


def _significant(rows: pd.DataFrame) -> pd.Series:
    p_max = rows["p_max"].astype(float).fillna(1.0)
    low = rows["margin_low"].astype(float).fillna(-1.0)
    return (p_max < 0.05) & (low > 0)


def _every(n: int) -> int:
    """Label each cell, or each second, fifth, tenth …, so that at most `MOST_LABELS` stand."""
    return next(step for step in (1, 2, 5, 10, 20, 50, 100) if n / step <= MOST_LABELS)
