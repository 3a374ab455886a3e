"""`rolecall head`: the dossier of one head, on the terminal or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from rolecall.reports.dossier import Dossier
    from rolecall.reports.run import Run

INPUTS = {"q": "queries", "k": "keys", "v": "values"}


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("head")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page here.")
@click.option("--model", help="Look at this head's examples anew, with this model (loads torch).")
def head(run: Path, head: str, html: Path | None, model: str | None) -> None:
    """Print all that RUN says of one head, such as L5H1.

    Where it looks and on which examples, what it writes, what breaks without it, who feeds it.
    """
    from rolecall.analyses.tables import replace_file
    from rolecall.reports.dossier import dossier
    from rolecall.reports.head_page import head_html
    from rolecall.reports.run import parse_head, read_run

    found = read_run(run)
    at = parse_head(head, found)
    fresh = _look(found, at, model) if model else ()
    facts = dossier(found, at, samples=fresh)
    if html is not None:
        text = head_html(found, facts)
        replace_file(html, lambda partial: partial.write_text(text, encoding="utf-8"))
        click.echo(f"{html}")
        return
    print_dossier(facts, Console())


def print_dossier(facts: Dossier, console: Console) -> None:
    """Nothing; prints a head's dossier."""
    tier = f", tier {facts.tier}" if len(facts.tier) == 1 else f", {facts.tier}" * bool(facts.tier)
    console.print(f"[bold]{facts.name}[/bold]  {facts.label.replace('_', ' ')}{tier}")
    for role, held, why in facts.reasons:
        what = f"{role} {held}" if held else f"nearest to {role}"
        console.print(f"  {what}: {why}", markup=False, highlight=False)
    if facts.scores:
        console.print("\n[bold]Where it looks[/bold]")
        console.print(_scores(facts))
    if facts.templates:
        named = [f"{name} {score:.2f}" for name, score in facts.templates]
        ends = f"{', '.join(named[:3])} … {', '.join(named[-3:])}"
        several = len(named) > 6
        said = ends if several else ", ".join(named)
        console.print(f"By template, best first: {said}", markup=False, highlight=False)
    for sample in facts.samples[:3]:
        _print_sample(sample, console)
    if facts.effects:
        console.print("\n[bold]What breaks without it[/bold] (positive: the head helps)")
        console.print(_effects(facts))
    if facts.weights:
        said = ", ".join(f"{name.replace('_', ' ')} {v:.2f}" for name, v in facts.weights.items())
        console.print(f"\n[bold]Weights[/bold]  {said}", highlight=False)
    for title, edges in (("Fed by", facts.fed_by), ("Feeds", facts.feeds)):
        if edges:
            said = ", ".join(f"{n} ({INPUTS.get(k, k)}, {x:+.3f})" for n, k, x in edges)
            console.print(f"[bold]{title}[/bold]  {said}", highlight=False)
    for what, command in facts.missing:
        console.print(f"[dim]missing: {what} ({escape(command)})[/dim]", highlight=False)


def _look(run: Run, head: tuple[int, int], model: str) -> list[dict[str, Any]]:
    """Fresh samples of this head on its leading role's examples."""
    from rolecall.analyses import load_model
    from rolecall.analyses.attention_sample import look_at

    settings = run.manifest.get("settings", {})
    scores = run.tables["scores"]
    rows = scores[(scores["layer"] == head[0]) & (scores["head"] == head[1])]
    rows = rows.sort_values("margin", ascending=False, kind="stable").head(1)
    n, seed = settings.get("n", 96), settings.get("seed", 0)
    return look_at(load_model(model), rows, run.folder, n=n, seed=seed)


def _scores(facts: Dossier) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("role", "score", "95 %", "chance", "baseline", "margin", "specific", "sink", ""):
        table.add_column(name, justify="left" if name in ("role", "") else "right", no_wrap=True)
    for row in facts.scores:
        interval = "–" if row["ci_low"] is None else f"{row['ci_low']:.2f}–{row['ci_high']:.2f}"
        table.add_row(
            row["role"],
            f"{number(row['score'])} {row['score_kind']}",
            interval,
            *(number(row[name]) for name in ("chance", "baseline")),
            number(row["margin"], signed=True),
            *(number(row[name]) for name in ("specificity", "sink")),
            "✓" if row["sure"] else "",
        )
    return table


def _effects(facts: Dossier) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("task", "total", "95 %", "direct", "repaired", "damage", "by"):
        table.add_column(name, justify="left" if name in ("task", "by") else "right", no_wrap=True)
    for row in facts.effects:
        low, high = row["total_low"], row["total_high"]
        table.add_row(
            row["task"] + ("" if row["usable"] else " (not done by the model)"),
            number(row["total"], signed=True),
            "–" if low is None else f"{low:.2f} to {high:.2f}",
            number(row["direct"], signed=True),
            "–" if row["self_repair"] is None else f"{row['self_repair']:.0%}",
            number(row["generic_damage"], signed=True),
            row["ablation"],
        )
    return table


def number(value: float | None, *, signed: bool = False) -> str:
    """Two decimals, or a dash for what is missing."""
    if value is None or value != value:
        return "–"
    return f"{value:+.2f}" if signed else f"{value:.2f}"


def _print_sample(sample: dict[str, Any], console: Console) -> None:
    from rolecall.reports.attention_view import Seen, summary

    seen = Seen.of(sample)
    console.print(f"\n{sample.get('role', '')} {seen.caption}:", markup=False, highlight=False)
    console.print("  " + "".join(seen.tokens), markup=False, highlight=False)
    console.print(f"  {summary(seen)}", markup=False, highlight=False)
    if sample.get("raises"):
        raised = " ".join(repr(token) for token in sample["raises"])
        lowered = " ".join(repr(token) for token in sample["lowers"])
        console.print(f"  raises {raised}", markup=False, highlight=False)
        console.print(f"  lowers {lowered}", markup=False, highlight=False)
