"""Figures of effects: layer × head maps of one number, and the top heads with their intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rolecall.reports.heatmap import hatch, map_height, map_key, outline
from rolecall.reports.run import Run, head_name, rows_of, shape_of
from rolecall.reports.saving import finished, new_axes, rolecall_style
from rolecall.reports.ticks import label_heads

KIND_COLOURS = {
    "zero": "#D55E00",
    "zero_folded": "#E69F00",
    "mean": "#0072B2",
    "resample": "#009E73",
}
KIND_MARKS = {"zero": "o", "zero_folded": "^", "mean": "s", "resample": "D"}
UNITS = {"logit_difference": "logits", "loss": "nats"}
SHOWN = {
    "total": "total effect",
    "direct": "direct effect",
    "indirect": "indirect effect",
    "self_repair": "share repaired",
    "generic_damage": "generic damage",
    "kl": "KL from clean",
}


def effect_heatmap(
    data: Run | pd.DataFrame,
    task: str,
    kind: str,
    *,
    column: str = "total",
    columns: int = 1,
    save: Path | None = None,
) -> Axes:
    """One number of every head on one task: orange where the head helps, violet where it harms.

    Hatched heads have no such number. Outlined ones are those whose total effect stands out among
    all heads and tasks (`p_max` < .05), whichever number the map shows.

    Args:
        data: A run, or rows of the effects table.
        task: Its name.
        kind: What heads were replaced by.
        column: total, direct, indirect, self_repair, generic_damage or kl.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: The table has no such task, kind or column.
    """
    if column not in SHOWN:
        raise ValueError(f"a map shows one of {', '.join(SHOWN)}, not {column!r}")
    rows = heads_of(data, task, [kind])
    if column not in rows.columns:
        raise ValueError(f"the effects table has no column {column!r}")
    shape = shape_of(data, rows)
    grid = np.full(shape, np.nan)
    grid[rows["layer"].astype(int), rows["head"].astype(int)] = rows[column].astype(float)
    known = np.abs(grid[~np.isnan(grid)])
    # A share: what is past 1 (the rest outweighs the head) would drown all that is below.
    share = column == "self_repair"
    most = 1.0 if share else float(known.max(initial=0.0)) or 1.0
    unit = "" if share else f" ({_unit(rows, column)})"
    with rolecall_style():
        axes = new_axes(columns, map_height(shape, columns))
        sns.heatmap(
            pd.DataFrame(grid),
            ax=axes,
            cmap="PuOr_r",
            vmin=-most,
            vmax=most,
            linewidths=0.3 if max(shape) <= 40 else 0.0,
            linecolor="white",
            xticklabels=False,
            yticklabels=False,
            cbar_kws={"label": SHOWN[column] + unit, "extend": "max" if share else "neither"},
        )
        label_heads(axes, shape)
        hatch(axes, np.isnan(grid))
        strong = rows[rows["p_max"].astype(float) < 0.05].astype({"layer": int, "head": int})
        outline(axes, strong)
        map_key(
            axes,
            outlined="total effect significant" if len(strong) else "",
            hatched="no value" if np.isnan(grid).any() else "",
        )
        axes.set_title(title_of(rows, task, kind))
        return finished(axes, rows, save)


def effect_forest(
    data: Run | pd.DataFrame,
    task: str,
    *,
    n: int = 12,
    columns: int = 1,
    save: Path | None = None,
) -> Axes:
    """The heads with the largest effects on a task, every kind of replacement side by side.

    Marks are totals with their 95 % intervals; a cross is the generic damage of the same kind, the
    rise in loss on unrelated text.

    Args:
        data: A run, or rows of the effects table.
        task: Its name.
        n: How many heads.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: The table has no such task.
    """
    rows = heads_of(data, task, None)
    kinds = [kind for kind in KIND_COLOURS if kind in set(rows["ablation"])]
    top = largest(rows, n)
    shown = rows[rows["heads"].isin(top)]
    place = {name: len(top) - number for number, name in enumerate(top)}
    step = 0.7 / max(len(kinds), 1)
    with rolecall_style():
        axes = new_axes(columns, 1.3 + 0.24 * len(top))
        axes.axvline(0, color="0.6", lw=0.6, zorder=0)
        for number, kind in enumerate(kinds):
            part = shown[shown["ablation"] == kind]
            y = part["heads"].map(place).astype(float) + (len(kinds) / 2 - number - 0.5) * step
            colour, total = KIND_COLOURS[kind], part["total"].astype(float)
            low, high = (part[c].astype(float) for c in ("total_low", "total_high"))
            axes.hlines(y, low, high, color=colour, lw=1.2)
            dot = {"s": 11, "color": colour, "marker": KIND_MARKS[kind], "zorder": 3}
            axes.scatter(total, y, label=kind.replace("_", " "), **dot)
            damage = part["generic_damage"].astype(float)
            axes.scatter(damage, y, s=12, color=colour, marker="x", lw=0.7, zorder=2)
        axes.scatter([], [], s=12, color="0.3", marker="x", lw=0.7, label="generic damage (nats)")
        axes.set_yticks([place[name] for name in top], labels=top)
        axes.set_xlabel(f"total effect ({_unit(rows, 'total')}; positive: the head helps)")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5 * columns))
        axes.set_title(title_of(rows, task, None))
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.legend(loc="outside lower center", ncols=2 * columns, columnspacing=1.2)
        return finished(axes, shown, save)


def heads_of(data: Run | pd.DataFrame, task: str, kinds: list[str] | None) -> pd.DataFrame:
    """The rows of single heads on a task, of these kinds or of all.

    Raises:
        ValueError: There are none.
    """
    effects = rows_of(data, "effects")
    rows = effects[effects["task"] == task]
    if rows.empty:
        known = ", ".join(sorted(effects["task"].unique()))
        raise ValueError(f"the effects table has no task {task!r}; it has {known}")
    rows = rows[rows["head"].notna() & rows["layer"].notna()]
    names = [head_name(layer, head) for layer, head in rows[["layer", "head"]].to_numpy()]
    rows = rows.assign(heads=names)
    if kinds is not None:
        there = ", ".join(sorted(rows["ablation"].unique()))
        rows = rows[rows["ablation"].isin(kinds)]
        if rows.empty:
            raise ValueError(f"task {task!r} has no {kinds[0]!r} effects of heads; it has {there}")
    if rows.empty:
        raise ValueError(f"task {task!r} has no effects of single heads")
    return rows


def largest(rows: pd.DataFrame, n: int) -> list[str]:
    """Names of the heads that lead, of either sign: each kind of replacement in turn."""
    leading = [
        part.assign(size=part["total"].abs()).sort_values("size", ascending=False, kind="stable")
        for _, part in rows.groupby("ablation", sort=True)
    ]
    found: dict[str, None] = {}
    for rank in range(len(rows)):
        for part in leading:
            if rank < len(part) and len(found) < n:
                found.setdefault(str(part["heads"].iloc[rank]))
    size = rows.groupby("heads")["total"].apply(lambda t: t.abs().max())
    return sorted(found, key=lambda name: -float(size[name]))


def _unit(rows: pd.DataFrame, column: str) -> str:
    if column in ("generic_damage", "kl"):
        return "nats"
    return UNITS.get(str(rows["metric"].iloc[0]), "")


def title_of(rows: pd.DataFrame, task: str, kind: str | None) -> str:
    """The task and the kind of replacement; a second line where the model cannot do the task."""
    able = "interpretable" not in rows or bool(rows["interpretable"].fillna(True).all())
    name = task.replace("_", " ") + (f", {kind.replace('_', ' ')}" if kind else "")
    return name if able else f"{name}\n(the model cannot do this task)"
