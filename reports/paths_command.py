"""`rolecall paths`: which earlier heads feed a head's queries, keys and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rolecall.reports.model_options import model_options, open_model, run_folder
from rolecall.reports.option_types import COUNT, HEAD, HEADS, OUT_FOLDER, SEED, TASK, TASK_FILE
from rolecall.reports.visible import visible
from rolecall.reports.written import print_written

TOP = 12
LEGEND = (
    "The sender's write, taken away, reaches the receiver's queries, keys or values straight along "
    "the residual stream; all else stays as it was. Positive: the model then does the task worse. "
    "moved: how far the receiver's attention shifts at the places that are read (0 to 1)."
)


@click.command()
@model_options
@click.option("--to", type=HEAD, required=True, help="The receiving head, like L18H6.")
@click.option("--from", "senders", type=HEADS, multiple=True, help="Earlier heads. [all of them]")
@click.option("--task", "name", type=TASK, help="A role or a task.")
@click.option("--tasks", "file", type=TASK_FILE, help="Or a JSON-lines file.")
@click.option(
    "--kind",
    default="zero",
    show_default=True,
    type=click.Choice(["zero", "zero_folded", "mean", "resample"]),
    help="What takes the sender's place.",
)
@click.option(
    "-n", "n", type=COUNT, default=16, show_default=True, help="Items of the task, about."
)
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--out", type=OUT_FOLDER, help="The run folder.")
def paths(to: str, name: str | None, file: Path | None, out: Path | None, **options: Any) -> None:
    """Show which earlier heads of MODEL feed the head --to, and by which of its inputs.

    Writes paths-HEAD.parquet and paths-HEAD.csv.
    """
    from rolecall.analyses.head_names import named_head, named_sets, require_before

    if (name is None) == (file is None):
        raise ValueError("name one task: --task with a role or a task, or --tasks with a file")
    senders = named_sets(options["senders"]) if options["senders"] else []
    require_before(named_head(to), [head for heads in senders for head in heads])
    folder = run_folder(out, options)
    from rich.markup import escape

    from rolecall.analyses.number_text import number
    from rolecall.analyses.paths import PathSettings, write_paths
    from rolecall.analyses.paths import paths as find_paths
    from rolecall.reports.progress import progress_bar
    from rolecall.reports.terminal import Terminal, print_whole

    settings = PathSettings(kind=options["kind"], senders=options["senders"], seed=options["seed"])
    with progress_bar("head-items") as told:
        model = open_model(options)
        task = _task(model, name, file, n=options["n"], seed=options["seed"])
        rows = find_paths(model, task, to, settings=settings, progress=told)
        written = write_paths(folder, to, rows)
    console = Terminal()
    console.print(
        f"[bold]{escape(task.name)}[/bold] to {to}, {settings.kind}: "
        f"clean {number(rows['clean'].iloc[0])}, {rows['n_items'].iloc[0]} items",
        highlight=False,
    )
    print_whole(_leading(rows), console)
    console.print(LEGEND, style="dim", highlight=False)
    print_written(console, written)


def _task(model: Any, name: str | None, file: Path | None, *, n: int, seed: int) -> Any:
    from rolecall.analyses.role_tasks import role_tasks
    from rolecall.analyses.task_file import read_tasks

    if file is not None:
        read = read_tasks(file, model)
        for problem in read.problems:
            click.echo(visible(f"rolecall: {problem}; the line is left out"), err=True)
        return read.task
    assert name is not None
    (task,) = role_tasks(model, [name], n=n, seed=seed)
    return task


def _leading(rows: Any) -> Any:
    from rich.table import Table

    from rolecall.analyses.number_text import interval, number

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("from", "into"):
        table.add_column(title, no_wrap=True)
    for title in ("effect", "95 %", "", "moved"):
        table.add_column(title, justify="right", no_wrap=True)
    words = {"q": "queries", "k": "keys", "v": "values"}
    for row in rows.head(TOP).to_dict("records"):
        table.add_row(
            row["heads"],
            f"{words[row['entry']]} of {row['receiver']}",
            number(row["total"], signed=True, digits=3),
            interval(row["total_low"], row["total_high"]),
            "*" if row["p_max"] < 0.05 else "",
            number(row["moved"], digits=3),
        )
    return table
