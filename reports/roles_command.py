"""`rolecall roles`: what roles there are, where they come from, how much data each has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rolecall.probes.base import Probe

COUNTED = 96
"""Examples made to count a role's templates: a scan's default."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, one object a role.")
def roles(as_json: bool) -> None:
    """List the roles: definition, source, number of templates."""
    import json

    from rich.markup import escape
    from rich.padding import Padding

    from rolecall.probes.registry import known
    from rolecall.probes.toy import toy_aligner
    from rolecall.reports.terminal import Terminal

    def templates(probe: Probe) -> int:
        reader = toy_aligner(causal=not probe.needs_future)
        made = probe.dataset(reader, n=COUNTED, seed=0)
        return len({example.template for example in made.examples})

    rows = [
        {
            "role": probe.name,
            "family": probe.family,
            "definition": probe.definition,
            "source": probe.source,
            "score_kind": probe.score_kind,
            "templates": templates(probe),
            "task": probe.task is not None,
            "no_task": probe.no_task or None,
            "encoders_only": probe.needs_future,
        }
        for probe in known()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    console = Terminal()
    for row in rows:
        only = ", encoders only" if row["encoders_only"] else ""
        task = "with a task" if row["task"] else f"no task: {row['no_task']}"
        console.print(
            f"[bold]{row['role']}[/bold]  {row['family']}, by {row['score_kind']}, "
            f"{row['templates']} templates{only}",
            highlight=False,
        )
        source = f"[dim]{escape(row['source'])}; {escape(task)}[/dim]"
        console.print(Padding(f"{escape(row['definition'])}\n{source}", (0, 4)))
