"""`rolecall check`: prove on this model that what is hooked is what is meant."""

from __future__ import annotations

from typing import Any

import click

from rolecall.reports.model_options import model_options, open_model


@click.command()
@model_options
@click.pass_context
def check(ctx: click.Context, **options: Any) -> None:
    """Prove on MODEL that patterns, heads and ablations are what they are taken for.

    Each line is a property with what was measured and the limit. Exit code 1 if one fails.
    """
    from rich.console import Console
    from rich.table import Table

    from rolecall.analyses import check as check_model

    findings = check_model(open_model(options))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "property", "measured", "limit", "what it means"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        mark = "[green]ok[/green]" if finding.ok else "[red]FAILS[/red]"
        measured = "–" if finding.measured is None else f"{finding.measured:.2g}"
        limit = "–" if finding.limit is None else f"{finding.limit:.2g}"
        table.add_row(mark, finding.name, measured, limit, finding.detail)
    Console().print(table)
    ctx.exit(0 if all(finding.ok for finding in findings) else 1)
