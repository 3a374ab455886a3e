"""`rolecall data`: the crafted examples of a role, to look at or to take away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rolecall.reports.model_options import open_reader, reader_options


@click.group()
def data() -> None:
    """Show or export the crafted examples of a role."""


@data.command()
@click.argument("role")
@reader_options
@click.option("-n", "n", default=96, show_default=True, help="Examples of the scan, about.")
@click.option("--seed", default=0, show_default=True)
@click.option("--show", default=5, show_default=True, help="How many of them to print.")
def show(role: str, n: int, seed: int, show: int, **options: Any) -> None:
    """Print examples of ROLE with the link marked in the text.

    The query is in [[…]], the right key in {{…}} and each rival in <<…>>.
    """
    from rich.console import Console
    from rich.markup import escape

    from rolecall.analyses.export import crafted_examples
    from rolecall.reports.marked_text import marked

    model = open_reader(options)
    crafted = crafted_examples(model, role, n=n, seed=seed)
    console = Console()
    if not crafted.examples:
        why = "; ".join(crafted.dropped) or "it made none"
        raise ValueError(f"role {role!r} has no example for {model.name}: {why}")
    step = max(1, len(crafted.examples) // max(1, show))
    for example in crafted.examples[::step][:show]:
        console.print(f"[dim]template {escape(example.template)}[/dim]", highlight=False)
        console.print(marked(example, model.tokenizer), highlight=False)
        if example.twin is not None:
            console.print(
                "[dim]twin:[/dim]", marked(example.twin, model.tokenizer), highlight=False
            )
        console.print()
    console.print(
        f"{len(crafted.examples)} examples; query [bold cyan]\\[\\[…]][/], "
        "key [bold green]{{…}}[/], rivals [magenta]<<…>>[/]",
        highlight=False,
    )


@data.command()
@click.argument("role")
@reader_options
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--tasks", is_flag=True, help="The items of the role's task instead of its links.")
@click.option("-n", "n", default=96, show_default=True, help="Examples of the scan, about.")
@click.option("--seed", default=0, show_default=True)
def export(role: str, out: Path, tasks: bool, n: int, seed: int, **options: Any) -> None:
    """Write the aligned examples of ROLE that a scan with this seed uses, one object a line."""
    from rolecall.analyses.export import crafted_examples, example_lines, item_lines, task_of

    model = open_reader(options)
    if tasks:
        lines = item_lines(task_of(model, role, n=n, seed=seed))
    else:
        lines = example_lines(crafted_examples(model, role, n=n, seed=seed))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    click.echo(f"{len(lines)} {'task items' if tasks else 'examples'} written to {out}")
