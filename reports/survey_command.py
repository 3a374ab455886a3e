"""`rolecall survey`: everything in a row, ending with what a person wants to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rolecall.reports.commands_kept import keep_command
from rolecall.reports.model_options import model_options, open_model, run_folder
from rolecall.reports.option_types import OUT_FOLDER, SEED, TREEBANK
from rolecall.reports.progress import progress_bar
from rolecall.reports.terminal import Terminal
from rolecall.reports.written import print_written


@click.command()
@model_options
@click.option("--quick", "pace", flag_value="quick", help="Fewer heads and items; minutes.")
@click.option("--full", "pace", flag_value="full", help="All heads, more of everything; hours.")
@click.option("--conllu", type=TREEBANK, help="Try syntactic labels on a treebank.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of all that is drawn.")
@click.option("--out", type=OUT_FOLDER, help="Run folder. [rolecall-out/NAME]")
@click.option("--figures/--no-figures", default=True, help="Draw the figures too. [on]")
def survey(
    pace: str | None,
    conllu: Path | None,
    seed: int,
    out: Path | None,
    figures: bool,
    **options: Any,
) -> None:
    """Check MODEL, scan it, read its weights, ablate, decide, and write the report.

    Steps that are done already in the run folder are not run again. A model of up to 64 heads has
    all of them ablated, and pruning curves for the tasks of its labelled heads; of a larger one
    those that lead a role and some drawn at random are ablated, unless --full is given.
    """
    folder = run_folder(out, options)
    with progress_bar("units") as told:
        from rolecall.analyses.survey import FULL, ORDINARY, QUICK
        from rolecall.analyses.survey import survey as run_all

        paces = {"quick": QUICK, "full": FULL, None: ORDINARY}
        model = open_model(options)
        result = run_all(
            model,
            out=folder,
            pace=paces[pace],
            treebank=conllu,
            seed=seed,
            progress=told,
        )
        unpruned = prune_labelled(model, folder, seed, told)
        keep_command(folder)  # now, for the report tells it
        told("report", 0, 1)
        page, problem = _report(folder, figures)
        told("report", 1, 1)
    _print(result, page, problem, [*result.notes, *unpruned])


def prune_labelled(model: Any, folder: Path, seed: int, told: Any) -> list[str]:
    """Nothing, or why there are no pruning curves; those of tasks with labelled heads are made."""
    from rolecall.analyses.pruning import Pruning, prune
    from rolecall.analyses.removal_orders import read_ranks
    from rolecall.analyses.survey import FEW_HEADS

    if not (folder / "effects.parquet").is_file():
        return []
    names = read_ranks(folder).labelled_tasks()
    if not names:
        return []
    if model.n_layers * model.n_heads > FEW_HEADS:
        return [f"no pruning curves of {', '.join(names)}: `rolecall prune` makes them"]
    prune(model, folder, names, how=Pruning(seed=seed), progress=told)
    return []


def _report(folder: Path, figures: bool) -> tuple[Path | None, str]:
    """The page's path, or None and why there is none."""
    try:
        from rolecall.analyses.tables import replace_file
        from rolecall.reports.all_figures import draw_all
        from rolecall.reports.page import report_html
        from rolecall.reports.run import read_run
    except ImportError as error:
        return None, f"no report: {error}"
    found = read_run(folder)
    text = report_html(found)
    path = folder / "report.html"
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))
    if figures:
        draw_all(found, folder / "figures")
    return path, ""


def _print(result: Any, page: Path | None, problem: str, notes: list[str]) -> None:
    from rolecall.reports.verdict_summary import print_verdicts

    console = Terminal()
    print_verdicts(result.verdicts, console)
    for note in notes:
        console.print(f"[yellow]·[/yellow] {escape(note)}", highlight=False)
    if result.generalisation is not None:
        console.print(table_of_generalisation(result.generalisation))
    if problem:
        console.print(escape(problem), highlight=False)
    if page is not None:
        _print_unheld(result.folder, console)
        print_written(console, page, said="\nReport:")
    print_written(console, result.folder, said="Written to")


def _print_unheld(folder: Path, console: Console) -> None:
    """Nothing; prints for each role without a head which came nearest."""
    from rolecall.reports.matters import role_stories
    from rolecall.reports.role_summary import print_roles
    from rolecall.reports.run import read_run

    stories = role_stories(read_run(folder))
    console.print("\n[bold]Roles without a head[/bold]")
    print_roles([story for story in stories if not story.heads], console)
    together = [s for s in stories if s.together is not None and len(s.heads) > 1]
    if together:
        console.print("\n[bold]All heads of a role removed at once[/bold]")
        print_roles(together, console)
    console.print("All roles so: rolecall table RUN roles", style="dim", highlight=False)


def table_of_generalisation(rows: Any) -> Table | str:
    """How the labelled syntactic heads do on a treebank that the labels never saw."""
    if not len(rows):
        return "\nNo head has a syntactic label, so there is nothing to try on the treebank."
    title = f"On {rows['treebank'].iloc[0]}, which the labels never saw"
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for name in (
        "role",
        "relation",
        "head",
        "accuracy",
        "modal offset",
        "baseline",
        "margin",
        "links",
        "",
    ):
        table.add_column(name, no_wrap=True)
    for row in rows.to_dict("records"):
        table.add_row(
            row["role"],
            row["relation"],
            f"L{row['layer']}H{row['head']} {row['tier']}",
            f"{row['accuracy']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}]",
            f"{row['offset_accuracy']:.2f} at {row['modal_offset']:+d}",
            f"{row['baseline']:.2f} {row['baseline_name']}",
            f"{row['margin']:+.2f} (at least {row['margin_low']:+.2f})",
            str(row["n_links"]),
            "holds" if row["holds"] else "does not hold",
        )
    return table
