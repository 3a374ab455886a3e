"""`rolecall data`: the crafted examples of a role, to look at or to take away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rolecall.reports.model_options import open_reader, reader_options, require_model
from rolecall.reports.option_types import COUNT, MOST, OUT_FILE, ROLE, SEED, Whole

if TYPE_CHECKING:
    from rolecall.probes.base import Crafted, Task


@click.group()
def data() -> None:
    """Show or export the crafted examples of a role."""


@data.command()
@click.argument("role", type=ROLE)
@reader_options
@click.option(
    "-n", "n", type=COUNT, default=96, show_default=True, help="Examples of the scan, about."
)
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option(
    "--show",
    type=Whole(0, MOST),
    default=5,
    show_default=True,
    help="How many of them to print.",
)
def show(role: str, n: int, seed: int, show: int, **options: Any) -> None:
    """Print examples of ROLE with the link marked in the text.

    The query is in [[…]], the right key in {{…}} and each rival in <<…>>.
    """
    require_model(options["model"])
    from rich.markup import escape

    from rolecall.analyses.export import crafted_examples
    from rolecall.reports.marked_text import marked
    from rolecall.reports.terminal import Terminal

    model = open_reader(options)
    crafted = crafted_examples(model, role, n=n, seed=seed)
    console = Terminal()
    if not crafted.examples:
        raise _nothing(f"role {role!r} has no example", model, crafted)
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
        f"{escape(_counted(crafted))}; query [bold cyan]\\[\\[…]][/], "
        "key [bold green]{{…}}[/], rivals [magenta]<<…>>[/]",
        highlight=False,
    )


@data.command()
@click.argument("role")
@reader_options
@click.option("--out", required=True, type=OUT_FILE, help="The JSON-lines file.")
@click.option("--tasks", is_flag=True, help="The items of its task, or of the task so named.")
@click.option(
    "-n", "n", type=COUNT, default=96, show_default=True, help="Examples of the scan, about."
)
@click.option("--seed", type=SEED, default=0, show_default=True)
def export(role: str, out: Path, tasks: bool, n: int, seed: int, **options: Any) -> None:
    """Write the aligned examples of ROLE that a scan with this seed uses, one object a line.

    An example's twin, the same text with the right key moved, has the line after it. Each line has
    the tokens' text beside their ids.
    """
    require_model(options["model"])
    from rolecall.probes.registry import find
    from rolecall.probes.task_names import require_task_name

    if tasks:
        require_task_name(role)
    else:
        find([role])
    from rolecall.analyses.export import crafted_examples, example_lines, item_lines
    from rolecall.analyses.role_tasks import role_tasks
    from rolecall.analyses.tables import replace_file

    model = open_reader(options)
    if tasks:
        (made,) = role_tasks(model, [role], n=n, seed=seed)
        lines, said = item_lines(made, model), f"{len(made.items)} task items{_noted(made)}"
    else:
        made = crafted_examples(model, role, n=n, seed=seed)
        lines, said = example_lines(made, model), _counted(made)
    if not lines:
        raise _nothing(f"there is nothing of role {role!r} to write", model, made)
    text = "".join(f"{line}\n" for line in lines)
    replace_file(out, lambda partial: partial.write_text(text, encoding="utf-8"))
    click.echo(f"{len(lines)} lines written to {out}: {said}")


def _nothing(what: str, model: Any, made: Crafted | Task) -> ValueError:
    return ValueError(f"{what} for {model.name}: {'; '.join(made.dropped) or 'it made none'}")


def _counted(crafted: Crafted) -> str:
    """How many examples there are, how many of them have a twin, and what was left out of them."""
    twins = sum(example.twin is not None for example in crafted.examples)
    has = f", {twins} of them with a twin" if twins else ""
    return f"{len(crafted.examples)} examples{has}{_noted(crafted)}"


def _noted(made: Crafted | Task) -> str:
    parts = (f"{count} × {why}" for why, count in sorted(made.dropped.items()) if count)
    return "".join(f"; {part}" for part in parts)
