"""Total against direct effect: what a head does itself, and what the rest makes good."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rolecall.analyses.number_text import share
from rolecall.reports.effect_figures import UNITS, heads_of, title_of
from rolecall.reports.own_task import preferred_kind
from rolecall.reports.run import Run, records
from rolecall.reports.saving import finished, new_axes, rolecall_style

DIRECT, TOTAL = "#E69F00", "#0072B2"


def total_direct_repair(
    data: Run | pd.DataFrame,
    task: str,
    *,
    ablation: str | None = None,
    top: int = 12,
    columns: int = 1,
    save: Path | None = None,
) -> Axes:
    """For the heads with the largest effects, direct and total effect and the share repaired.

    A total effect short of the direct one means that later layers make good part of the loss
    (self-repair, printed on the right where it is known: 100 % and more is the whole of it); one
    beyond it, that the head also acts through others.

    Args:
        data: A run, or rows of the effects table.
        task: The task.
        ablation: The kind of replacement; the preferred one if None.
        top: How many heads.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: No effects of single heads on such a task, or none of this kind.
    """
    rows = heads_of(data, task, None if ablation is None else [ablation])
    kind = ablation or preferred_kind(rows)
    rows = largest(rows[rows["ablation"] == kind], top)
    with rolecall_style():
        axes = new_axes(columns, 0.95 + 0.19 * max(len(rows), 2))
        axes.axvline(0, color="0.6", lw=0.6, zorder=0)
        for y, row in enumerate(records(rows)):
            _head(axes, row, y)
        axes.set_yticks(range(len(rows)), labels=rows["heads"].tolist())
        unit = UNITS.get(str(rows["metric"].iloc[0]), "")
        axes.set(ylim=(len(rows) - 0.4, -0.9), xlabel=f"effect ({unit}; positive: the head helps)")
        axes.set_title(title_of(rows, task, f"{kind} ablation"), loc="left")
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5 * columns))
        if rows["self_repair"].notna().any():
            place = {"transform": axes.get_yaxis_transform(), "ha": "left", "fontsize": 6}
            axes.text(1.02, -0.75, "repaired", va="center", **place)
        handles = axes.get_legend_handles_labels()
        figure = axes.get_figure(root=True)
        assert figure is not None
        unique = dict(zip(handles[1], handles[0], strict=True))
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=2)
        return finished(axes, rows, save)


def largest(rows: pd.DataFrame, top: int) -> pd.DataFrame:
    """The rows with the largest total or direct effect either way, largest first."""
    size = rows[["total", "direct"]].astype(float).abs().max(axis=1)
    order = size.sort_values(ascending=False, kind="stable").index[:top]
    return rows.loc[order].reset_index(drop=True)


def _head(axes: Axes, row: dict, y: int) -> None:
    total, direct = row["total"], row["direct"]
    if pd.notna(direct):
        axes.plot((direct, total), (y, y), color="0.75", lw=1.6, zorder=1)
        axes.scatter([direct], [y], marker="D", s=16, color=DIRECT, label="direct", zorder=3)
    if pd.notna(row["total_low"]):
        axes.plot((row["total_low"], row["total_high"]), (y, y), color=TOTAL, lw=0.9, zorder=2)
    axes.scatter([total], [y], marker="o", s=18, color=TOTAL, label="total", zorder=3)
    if pd.notna(row["self_repair"]):
        place = {"transform": axes.get_yaxis_transform(), "ha": "left", "va": "center"}
        axes.text(1.02, y, share(row["self_repair"]), fontsize=6, **place)
