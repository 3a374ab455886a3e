"""`rolecall prune`: what tasks lose as more and more heads are removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rolecall.reports.model_options import model_options, open_model, run_folder
from rolecall.reports.option_types import MOST, OUT_FOLDER, SEED, TASK, Whole
from rolecall.reports.written import print_written

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table


@click.command()
@model_options
@click.option(
    "--task", "names", type=TASK, multiple=True, help="A role or a task; may be repeated. [all]"
)
@click.option(
    "--kind",
    type=click.Choice(["mean", "zero"]),
    default="mean",
    show_default=True,
    help="What heads are replaced by.",
)
@click.option(
    "-n",
    "n",
    type=Whole(2, MOST),
    default=12,
    show_default=True,
    help="Items a task, about.",
)
@click.option("--draws", type=Whole(1, MOST), default=3, show_default=True, help="Random orders.")
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Of the items and random orders."
)
@click.option("--out", type=OUT_FOLDER, help="The run folder.")
@click.option("--figures/--no-figures", default=True, show_default=True)
def prune(names: tuple[str, ...], out: Path | None, **options: Any) -> None:
    """Remove more and more heads of MODEL and see what each task loses.

    The largest effect first, the smallest first, the heads of the task's role first, and at random.
    Needs a run folder with scores and effects; writes pruning.parquet and a figure a task. Only
    tasks that the model can do are pruned.
    """
    from rolecall.analyses.manifest_file import read_manifest
    from rolecall.analyses.tables import read_table

    folder = run_folder(out, options)
    for name in ("scores", "effects"):
        read_table(folder, name)
    read_manifest(folder)
    from rich.markup import escape

    from rolecall.analyses.pruning import Pruning
    from rolecall.analyses.pruning import prune as prune_model
    from rolecall.reports.progress import progress_bar
    from rolecall.reports.pruning_figure import pruning_curves
    from rolecall.reports.saving import figure_name
    from rolecall.reports.terminal import Terminal, print_whole

    how = Pruning(**{name: options[name] for name in ("n", "draws", "kind", "seed")})
    with progress_bar("set-items") as told:
        rows = prune_model(open_model(options), folder, names, how=how, progress=told)
        for task in rows["task"].unique() if options["figures"] else ():
            pruning_curves(rows, task, save=folder / "figures" / figure_name("pruning", task))
    console = Terminal()
    for task, part in rows.groupby("task", sort=True):
        console.print(
            f"\n[bold]{escape(str(task))}[/bold]  {str(part['metric'].iloc[0]).replace('_', ' ')}"
        )
        print_whole(table_of_pruning(part), console)
    print_written(console, folder)


def table_of_pruning(rows: pd.DataFrame) -> Table:
    """One task: an order a line, its metric after each number of heads removed."""
    from rich.table import Table

    from rolecall.analyses.number_text import number

    stops = sorted(set(rows.loc[rows["order"] == "random", "removed"]))
    shown = [stop for stop in stops if stop < 4 or stop in stops[4::2] or stop == stops[-1]]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("heads removed", no_wrap=True)
    for stop in shown:
        table.add_column(str(stop), justify="right", no_wrap=True)
    for order, part in rows.groupby("order", sort=True):
        value = part.set_index("removed")["value"]
        cells = [number(value[stop]) if stop in value.index else "" for stop in shown]
        table.add_row(str(order).replace("_", " "), *cells)
    return table
