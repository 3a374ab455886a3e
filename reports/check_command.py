"""`rolecall check`: prove that what is hooked is what is meant; known truth on planted models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rolecall.reports.model_options import model_options, open_model, require_model
from rolecall.reports.option_types import COUNT, OUT_FOLDER, SEED, given
from rolecall.reports.writable import require_folder
from rolecall.reports.written import print_written

PLANTED_COLUMNS = {
    "role": "role",
    "heads": "planted",
    "found": "found",
    "recall": "recall",
    "precision": "precision",
    "impostors": "impostors",
    "impostors_labelled": "labelled",
    "tiers right": "tiers right",
    "random_heads": "random heads",
    "random_labels": "labelled",
}
"""What the terminal shows of the table of precision; the files hold all of it."""

OWN = ("models", "n_random", "curve", "seed", "out")
"""The options of --planted."""


@click.command()
@model_options
@click.option("--planted", is_flag=True, help="Instead: known truth on planted models.")
@click.option(
    "--models", type=COUNT, default=30, show_default=True, help="With --planted: how many of them."
)
@click.option(
    "--random",
    "n_random",
    type=COUNT,
    default=20,
    show_default=True,
    help="And of random weights.",
)
@click.option("--curve", is_flag=True, help="With --planted: recall against noise too (slow).")
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="With --planted: of all models."
)
@click.option("--out", type=OUT_FOLDER, help="With --planted. [rolecall-out/planted]")
@click.pass_context
def check(ctx: click.Context, **options: Any) -> None:
    """Prove on MODEL that patterns, heads and ablations are what they are taken for.

    Each line is a property with what was measured and the limit. Exit code 1 if one fails.

    With --planted, no MODEL is needed: heads set by construction are scanned and labelled, beside
    impostors and models of random weights, and the table of precision, recall and right tiers is
    written. Exit code 1 if a tier is wrong, or more than 5 % of the random models have a label.
    """
    own = {name: options.pop(name) for name in OWN}
    if options.pop("planted"):
        if options["model"]:
            raise ValueError("--planted brings its own models; leave MODEL out")
        ctx.exit(0 if _planted(**own) else 1)
    unread = given(*OWN)
    if unread:
        raise ValueError(
            f"--{unread[0].removeprefix('n_')} is for --planted; a check writes nothing"
        )
    require_model(options["model"], options["revision"])
    ctx.exit(0 if _check(options) else 1)


def _check(options: dict[str, Any]) -> bool:
    from rich.table import Table

    from rolecall.analyses import check as check_model
    from rolecall.reports.terminal import Terminal

    findings = check_model(open_model(options))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "property", "measured", "limit", "what it means"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        mark = "[green]ok[/green]" if finding.ok else "[red]FAILS[/red]"
        measured = "–" if finding.measured is None else f"{finding.measured:.2g}"
        limit = "–" if finding.limit is None else f"{finding.limit:.2g}"
        table.add_row(mark, finding.name, measured, limit, finding.detail)
    Terminal().print(table)
    return all(finding.ok for finding in findings)


def _planted(*, models: int, n_random: int, curve: bool, seed: int, out: Path | None) -> bool:
    import pandas as pd

    from rolecall.analyses.planted_command import write_planted
    from rolecall.reports.precision_figure import recall_curve
    from rolecall.reports.table_text import as_markdown, print_rows
    from rolecall.reports.terminal import Terminal

    folder = out or Path("rolecall-out") / "planted"
    require_folder(folder)
    console = Terminal()
    console.print(f"{models} planted and {n_random} random models; some minutes …", style="dim")
    report = write_planted(folder, n_planted=models, n_random=n_random, seed=seed, curve=curve)
    text = f"{as_markdown(report.roles)}\n{as_markdown(report.truths)}"
    (folder / "planted.md").write_text(text, encoding="utf-8")
    roles = report.roles
    pairs = zip(roles["tiers_right"], roles["tiers"], strict=True)
    roles = roles.assign(**{"tiers right": [f"{right}/{tiers}" for right, tiers in pairs]})
    print_rows(roles[list(PLANTED_COLUMNS)].rename(columns=PLANTED_COLUMNS), console)
    console.print()
    print_rows(report.truths, console)
    if not report.wrong.empty:
        console.print("\nWrong tiers:", style="red")
        print_rows(
            report.wrong[["model", "layer", "head", "name", "role", "right", "tier"]], console
        )
    if curve:
        recall_curve(pd.read_csv(folder / "planted_noise.csv"), save=folder / "planted_noise")
    print_written(console, folder, said="Written to")
    return report.ok
