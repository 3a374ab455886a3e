"""`rolecall head`: the dossier of one head, on the terminal or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rolecall.analyses.number_text import interval, number, p_text, share, times
from rolecall.reports.option_types import HEAD, OUT_FILE, PATH
from rolecall.reports.terminal import Terminal, print_whole

if TYPE_CHECKING:
    from rolecall.reports.dossier import Dossier
    from rolecall.reports.run import Run

INPUTS = {"q": "queries", "k": "keys", "v": "values"}


@click.command()
@click.argument("run", type=PATH)
@click.argument("head", type=HEAD)
@click.option("--html", type=OUT_FILE, help="Write a page here.")
@click.option("--figure", type=OUT_FILE, help="Save its evidence profile here.")
@click.option(
    "--model",
    is_flag=False,
    flag_value="",
    help="Look at this head's examples anew with this model, or the run's own (loads torch).",
)
def head(run: Path, head: str, html: Path | None, figure: Path | None, model: str | None) -> None:
    """Print all that RUN says of one head, such as L5H1.

    Where it looks and on which examples, what it writes, what breaks without it, who feeds it.
    --figure takes a path without ending: .svg, .pdf, .png and .csv are written there.
    """
    from rolecall.analyses.tables import replace_file
    from rolecall.reports.dossier import dossier
    from rolecall.reports.head_page import head_html
    from rolecall.reports.profile import evidence_profile
    from rolecall.reports.run import parse_head, read_run

    found = read_run(run)
    at = parse_head(head, found)
    fresh = look(found, at, model) if model is not None else ()
    facts = dossier(found, at, samples=fresh)
    if figure is not None:
        evidence_profile(found, at, save=figure)
        click.echo(f"{figure}.pdf, .svg, .png and .csv")
    if html is not None:
        text = head_html(found, facts)
        replace_file(html, lambda partial: partial.write_text(text, encoding="utf-8"))
        click.echo(f"{html}")
    if html is not None or figure is not None:
        return
    print_dossier(facts, Terminal())


def print_dossier(facts: Dossier, console: Console) -> None:
    """Nothing; prints a head's dossier."""
    console.print(f"[bold]{facts.name}[/bold]  {escape(facts.called)}", highlight=False)
    for role, held, why in facts.reasons:
        what = f"{role} {held}" if held else f"nearest to {role}"
        console.print(f"  {what}: {why}", markup=False, highlight=False)
    if facts.scores:
        console.print("\n[bold]Where it looks[/bold]")
        print_whole(_scores(facts), console)
    if facts.templates:
        named = [f"{name} ({number(score)})" for name, score in facts.templates]
        ends = f"{', '.join(named[:3])} … {', '.join(named[-3:])}"
        several = len(named) > 6
        said = ends if several else ", ".join(named)
        console.print(f"By template, best first: {said}", markup=False, highlight=False)
    for sample in facts.samples[:3]:
        _print_sample(sample, console)
    if facts.effects:
        kind = facts.effects[0]["ablation"]
        console.print(
            f"\n[bold]What breaks without it[/bold] ({kind} ablation; positive: the head helps; "
            "p over all heads and tasks, or over heads with the pattern; ratio to its effect "
            "elsewhere)",
            highlight=False,
        )
        print_whole(_effects(facts), console)
        for row in facts.effects:
            if row["cannot"]:
                console.print(
                    f"* the model is not shown to do {row['task']} ({row['cannot']}), so an effect "
                    "on it tells nothing",
                    markup=False,
                    highlight=False,
                )
    if facts.weights:
        parts = [f"{name.replace('_', ' ')} {number(v)}" for name, v in facts.weights.items()]
        said = ", ".join(parts)
        console.print(f"\n[bold]Weights[/bold]  {said}", highlight=False)
    for title, edges in (("Fed by", facts.fed_by), ("Feeds", facts.feeds)):
        if edges:
            said = ", ".join(
                f"{n} ({INPUTS.get(k, k)}, {number(x, signed=True, digits=3)})" for n, k, x in edges
            )
            console.print(f"[bold]{title}[/bold]  {said}", highlight=False)
    for what, command in facts.missing:
        console.print(f"[dim]missing: {what} ({escape(command)})[/dim]", highlight=False)


def look(run: Run, head: tuple[int, int], model: str) -> list[dict[str, Any]]:
    """Fresh samples of this head on its leading role's examples, by this or the run's own model.

    Raises:
        ValueError: It is another model than the run's, or the run has no scores.
    """
    from rolecall.analyses.attention_sample import look_at
    from rolecall.analyses.manifest import check_folder
    from rolecall.reports.model_options import EMBEDDED, open_model
    from rolecall.reports.run import rows_of

    described = run.manifest.get("model", {})
    name = model or described.get("name")
    bos = described.get("bos")
    policy = bos.get("policy") if isinstance(bos, dict) else None
    opened = open_model(
        {
            "model": None if name in (EMBEDDED, None) else name,
            "device": "cpu",
            "dtype": described.get("dtype") or "float32",
            "bos": policy if isinstance(policy, bool) else None,
            "revision": described.get("revision"),
        }
    )
    check_folder(run.folder, opened)
    scores, settings = rows_of(run, "scores"), run.manifest.get("settings", {})
    rows = scores[(scores["layer"] == head[0]) & (scores["head"] == head[1])]
    rows = rows.sort_values("margin", ascending=False, kind="stable").head(1)
    return look_at(opened, rows, run.folder, n=settings.get("n", 96), seed=settings.get("seed", 0))


def _scores(facts: Dossier) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("role", "score", "95 %", "chance", "base", "margin", "spec.", "sink", ""):
        table.add_column(name, justify="left" if name in ("role", "") else "right", no_wrap=True)
    for row in facts.scores:
        within = (
            "–" if row["ci_low"] is None else f"{number(row['ci_low'])}–{number(row['ci_high'])}"
        )
        table.add_row(
            escape(row["role"]),
            f"{number(row['score'])} {row['score_kind']}",
            within,
            *(number(row[name]) for name in ("chance", "baseline")),
            number(row["margin"], signed=True),
            *(number(row[name]) for name in ("specificity", "sink")),
            "✓" if row["sure"] else "",
        )
    return table


def _effects(facts: Dossier) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("task", "total", "95 %", "p", "ratio", "direct", "repaired", "damage"):
        table.add_column(name, justify="left" if name == "task" else "right", no_wrap=True)
    leading = facts.effects[0]["ablation"]
    for row in facts.effects:
        by = "" if row["ablation"] == leading else f" {row['ablation']}"
        table.add_row(
            escape(row["task"]) + "*" * bool(row["cannot"]) + by,
            number(row["total"], signed=True),
            interval(row["total_low"], row["total_high"]),
            "–" if row["cannot"] else p_text(row["p"]),
            "–" if row["cannot"] else times(row["ratio"]),
            number(row["direct"], signed=True),
            share(row["self_repair"]),
            number(row["generic_damage"], signed=True),
        )
    return table


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
