"""The layer × head map of one role: one cell a head, significant ones outlined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from rolecall.reports.run import Run, rows_of, shape_of, significant
from rolecall.reports.saving import column_width, finished, new_axes, rolecall_style
from rolecall.reports.ticks import SCORE_KINDS, label_heads

OUTLINE = "#000000"
HATCH = {"facecolor": "#F7F7F7", "edgecolor": "0.75", "hatch": "////", "lw": 0}
KEY_LINE = 0.17
"""Inches that a key under a map takes."""


def role_heatmap(
    data: Run | pd.DataFrame,
    role: str,
    *,
    column: str = "score",
    columns: int = 1,
    save: Path | None = None,
) -> Axes:
    """One column of the scores table for one role, layers down and heads across.

    Heads without evidence are hatched. A head is outlined where the role is significant for it
    among all heads and roles (`p_max` < .05) and its margin's interval is above zero.

    Args:
        data: A run, or rows of the scores table.
        role: Its name.
        column: Of the scores table.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: The table has no such role or column.
    """
    scores = rows_of(data, "scores")
    if column not in scores.columns:
        raise ValueError(f"the scores table has no column {column!r}")
    rows = scores[scores["role"] == role]
    if rows.empty:
        known = ", ".join(sorted(scores["role"].unique()))
        raise ValueError(f"the scores table has no role {role!r}; it has {known}")
    shape = shape_of(data, scores)
    with rolecall_style():
        axes = new_axes(columns, map_height(shape, columns))
        _draw(axes, rows, column, shape)
        axes.set_title(f"{role.replace('_', ' ')}{_kind(rows, column)}")
        return finished(axes, rows, save)


def map_height(shape: tuple[int, int], columns: int) -> float:
    """Inches: cells about as high as wide, though never too flat to read or taller than a page."""
    cell = (column_width(columns) - 1.0) / max(shape[1], 1)
    return float(np.clip(0.8 + shape[0] * np.clip(cell, 0.09, 0.2), 1.6, 9.0))


def outline(axes: Axes, heads: pd.DataFrame, colour: str = OUTLINE) -> None:
    """Nothing; draws a frame round the cell of each row's head, seen on light and on dark."""
    cells = [Rectangle((h, layer), 1, 1) for layer, h in heads[["layer", "head"]].to_numpy()]
    width = _frame_width(axes)
    frame = PatchCollection(cells, facecolor="none", edgecolor=colour, lw=width, zorder=3)
    frame.set_path_effects([withStroke(linewidth=2.4 * width, foreground="white")])
    frame.set_clip_on(False)
    axes.add_collection(frame)


def hatch(axes: Axes, absent: np.ndarray) -> None:
    """Nothing; hatches the cells [layer, head] that are True."""
    cells = [Rectangle((head, layer), 1, 1) for layer, head in np.argwhere(absent)]
    axes.add_collection(PatchCollection(cells, **HATCH))


def map_key(axes: Axes, *, outlined: str, hatched: str) -> None:
    """Nothing; says under the map what a frame and a hatched cell are; an empty text is left out.

    The figure grows by the line that this takes.
    """
    handles = []
    if outlined:
        handles.append(Patch(facecolor="none", edgecolor=OUTLINE, lw=1.1, label=outlined))
    if hatched:
        handles.append(Patch(**HATCH, label=hatched))
    if not handles:
        return
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    figure.set_figheight(figure.get_figheight() + KEY_LINE)
    figure.legend(handles=handles, loc="outside lower center", ncols=2, columnspacing=1.2)


def _frame_width(axes: Axes) -> float:
    """Points: thinner where cells are small, so that a frame does not fill them."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    across, down = (abs(b - a) for a, b in (axes.get_xlim(), axes.get_ylim()))
    cell = 72 * min((width - 1.0) / across, (height - 0.8) / down)
    return float(np.clip(0.1 * cell, 0.3, 1.1))


def _draw(axes: Axes, rows: pd.DataFrame, column: str, shape: tuple[int, int]) -> None:
    grid = np.full(shape, np.nan)
    grid[rows["layer"], rows["head"]] = rows[column].astype(float)
    known = grid[~np.isnan(grid)]
    signed = bool((known < 0).any())
    most = float(np.abs(known).max(initial=0.0)) or 1.0
    sns.heatmap(
        pd.DataFrame(grid),
        ax=axes,
        cmap="PuOr_r" if signed else "cividis",
        vmin=-most if signed else 0.0,
        vmax=1.0 if column == "score" and not signed else most,
        linewidths=0.3 if max(shape) <= 40 else 0.0,
        linecolor="white",
        xticklabels=False,
        yticklabels=False,
        cbar_kws={"label": column.replace("_", " ")},
    )
    label_heads(axes, shape)
    hatch(axes, np.isnan(grid))
    strong = rows[significant(rows)]
    outline(axes, strong)
    map_key(
        axes,
        outlined="significant" if len(strong) else "",
        hatched="no evidence" if np.isnan(grid).any() else "",
    )


def _kind(rows: pd.DataFrame, column: str) -> str:
    """What the score is a share of, in brackets; nothing for other columns."""
    said = SCORE_KINDS.get(str(rows["score_kind"].iloc[0]), "")
    return f" ({said})" if said and column == "score" else ""
