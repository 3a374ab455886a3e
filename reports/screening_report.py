"""What one backward pass guesses of every head, held against the exact effects."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from rolecall.reports.effect_figures import UNITS
from rolecall.reports.point_labels import label_points
from rolecall.reports.run import head_name
from rolecall.reports.saving import column_width, rolecall_style, save_figure
from rolecall.reports.terminal import print_whole

TITLES = {
    "importance": "importance",
    "importance_in_layer": "by layer",
    "attribution_zero": "attribution zero",
    "attribution_resample": "attribution resample",
}
LEGEND = (
    "Spearman's correlation over heads. importance: E |∂M/∂ξ| with the size of the zero effect; by "
    "layer: normalised by layer, so compared within layers; attribution: the first-order effect. "
    "Gradients miss saturated attention and self-repair: claims rest on the exact effects."
)
NAMED = 6


def print_screening(found: pd.DataFrame, console: Console) -> None:
    """Nothing; prints how well each guess ranks the heads, task by task."""
    if found.empty:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", no_wrap=True)
    wide = found.pivot(index="task", columns="guess", values="spearman").reindex(columns=[*TITLES])
    for title in TITLES.values():
        table.add_column(title, justify="right", no_wrap=True)
    for task, row in wide.iterrows():
        cells = ["–" if pd.isna(value) else f"{value:.2f}" for value in row]
        table.add_row(str(task), *cells)
    console.print("\n[bold]One backward pass against the exact effects[/bold]")
    print_whole(table, console)
    console.print(LEGEND, style="dim", highlight=False)


def screening_figure(rows: pd.DataFrame, metric: str, *, save: Path | None = None) -> Figure:
    """Guess across, exact effect of zeroing up, a dot a head: attribution left, importance right.

    Args:
        rows: Of one task: the screening table's columns, and `total` beside.
        metric: What the task is measured by.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.
    """
    unit = UNITS.get(metric, "")
    pairs = (
        (rows["attribution_zero"], rows["total"], "attribution", "exact effect"),
        (rows["importance"], rows["total"].abs(), "importance", "size of the exact effect"),
    )
    names = [head_name(layer, head) for layer, head in rows[["layer", "head"]].to_numpy()]
    with rolecall_style():
        figure = Figure(figsize=(column_width(2), 2.6))
        for axes, (guess, exact, across, up) in zip(figure.subplots(1, 2), pairs, strict=True):
            ends = [min(guess.min(), exact.min(), 0.0), max(guess.max(), exact.max())]
            axes.plot(ends, ends, color="0.6", lw=0.6, zorder=0)
            axes.scatter(guess, exact, s=8, color="#0072B2", lw=0, rasterized=len(rows) > 2000)
            axes.set(xlabel=f"{across} ({unit})", ylabel=f"{up} ({unit})")
            top = exact.abs().to_numpy().argsort(kind="stable")[::-1][:NAMED]
            label_points(
                axes,
                [float(guess.iloc[i]) for i in top],
                [float(exact.iloc[i]) for i in top],
                [names[i] for i in top],
            )
        task = str(rows["task"].iloc[0]).replace("_", " ")
        figure.suptitle(f"{task}: one backward pass against exact zero ablation")
        if save is not None:
            save_figure(figure, rows, Path(save))
    return figure
