"""`rolecall report`: the run folder as one page for a colleague, with every figure beside it."""

from __future__ import annotations

from pathlib import Path

import click

from rolecall.reports.option_types import OUT_FILE, PATH
from rolecall.reports.visible import visible
from rolecall.reports.writable import require_file, require_folder


@click.command()
@click.argument("run", type=PATH)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "md"]),
    default="html",
    show_default=True,
    help="One HTML file, or Markdown.",
)
@click.option("--out", type=OUT_FILE, help="Figures go beside it. [RUN/report.html]")
@click.option("--figures/--no-figures", default=True, help="Draw the figures too. [on]")
def report(run: Path, kind: str, out: Path | None, figures: bool) -> None:
    """Write the report of RUN: a page that needs no network, and the figures beside it.

    Reads the run folder's tables alone, so it works on a machine without torch. A run that lacks
    some of them gives a report of what is there, which says what is missing.
    """
    from rolecall.analyses.tables import replace_file
    from rolecall.reports.all_figures import draw_all
    from rolecall.reports.page import report_html, report_markdown
    from rolecall.reports.run import read_run

    path = out or run / f"report.{kind}"
    drawn_to = path.parent / "figures"
    _require_places(path, drawn_to if figures else None)
    found = read_run(run)
    text = report_html(found) if kind == "html" else report_markdown(found)
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))
    click.echo(f"{path}  {len(text.encode()) / 1e6:.1f} MB")
    if figures:
        drawn = draw_all(found, drawn_to)
        click.echo(f"{len(drawn.names)} figures in {drawn_to}: {', '.join(drawn.names)}")
        for name, why in drawn.left_out.items():
            click.echo(visible(f"no figure {name}: {why}"), err=True)
    for name, command in found.missing():
        click.echo(f"no {name}: `{command}` would add it", err=True)


def _require_places(page: Path, figures: Path | None) -> None:
    """Nothing, if the page, and its figures where they are wanted, can be written.

    Raises:
        ValueError: They cannot; the message says where else, or how without.
    """
    try:
        require_file(page)
    except ValueError as error:
        raise ValueError(f"{error}; name another place for the page with --out") from None
    try:
        if figures is not None:
            require_folder(figures)
    except ValueError as error:
        ways = "name another place for the page with --out, or leave them out with --no-figures"
        raise ValueError(f"{error}; figures go beside the page: {ways}") from None
