"""The evidence profile of one head: its score for every role, beside chance and baseline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from rolecall.reports.palette import blended, role_colour
from rolecall.reports.run import Run, head_name, rows_of, significant
from rolecall.reports.saving import finished, new_axes, rolecall_style
from rolecall.reports.ticks import score_label

PALE_BAR = 0.35
"""How strong the colour of a bar is that is not significant."""


def evidence_profile(
    data: Run | pd.DataFrame,
    head: tuple[int, int],
    *,
    columns: int = 1,
    save: Path | None = None,
) -> Axes:
    """Bars of a head's score for every role with 95 % intervals; chance and baseline are marked.

    A bar is in full colour where the role is significant for this head, and pale elsewhere.

    Args:
        data: A run, or rows of the scores table.
        head: Layer and head.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: The table has no such head.
    """
    rows = rows_of_head(rows_of(data, "scores"), head)
    rows = rows.sort_values(["family", "role"], kind="stable").reset_index(drop=True)
    with rolecall_style():
        axes = new_axes(columns, 1.05 + 0.2 * len(rows))
        at = np.arange(len(rows))
        strong = significant(rows)
        colours = [
            role_colour(role) if full else blended(role_colour(role), PALE_BAR)
            for role, full in zip(rows["role"], strong, strict=True)
        ]
        axes.barh(at, rows["score"].astype(float), height=0.66, color=colours)
        _intervals(axes, rows, at)
        _marks(axes, rows, at)
        names = [role.replace("_", " ") for role in rows["role"]]
        axes.set_yticks(at, labels=names)
        axes.set(xlim=(0, 1.02), ylim=(len(rows) - 0.4, -0.6))
        axes.set_xlabel(score_label(rows["score_kind"]))
        axes.set_title(f"{head_name(*head)}: evidence for every role", loc="left")
        axes.tick_params(axis="y", length=0)
        figure = axes.get_figure(root=True)
        assert figure is not None
        handles = [*_key(strong), *axes.get_legend_handles_labels()[0]]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, columnspacing=1.2)
        return finished(axes, rows, save)


def rows_of_head(rows: pd.DataFrame, head: tuple[int, int]) -> pd.DataFrame:
    """The rows of one head.

    Raises:
        ValueError: There are none; the message says which heads there are.
    """
    found = rows[(rows["layer"] == head[0]) & (rows["head"] == head[1])]
    if found.empty:
        last = head_name(rows["layer"].max(), rows["head"].max()) if len(rows) else "none"
        raise ValueError(
            f"there is no head {head_name(*head)} in this run; heads go from L0H0 to {last}"
        )
    return found


def _key(strong: pd.Series) -> list[Patch]:
    """What full and pale bars are, those that there are."""
    shades = {"significant": (1.0, strong.any()), "not significant": (PALE_BAR, not strong.all())}
    return [
        Patch(facecolor=blended("#404040", dark), label=label)
        for label, (dark, there) in shades.items()
        if there
    ]


def _intervals(axes: Axes, rows: pd.DataFrame, at: np.ndarray) -> None:
    low, high = rows["ci_low"].astype(float), rows["ci_high"].astype(float)
    known = low.notna() & high.notna()
    if known.any():
        axes.hlines(
            at[known], low[known], high[known], color="#1B1F23", lw=1.0, label="95 % interval"
        )


def _marks(axes: Axes, rows: pd.DataFrame, at: np.ndarray) -> None:
    ink = "#1B1F23"
    chance, baseline = rows["chance"].astype(float), rows["baseline"].astype(float)
    axes.scatter(chance, at, marker="|", s=60, color=ink, lw=1.0, zorder=4, label="chance")
    inside = {"facecolor": "white", "edgecolor": ink, "lw": 0.7, "zorder": 4}
    axes.scatter(baseline, at, marker="D", s=11, label="baseline", **inside)
