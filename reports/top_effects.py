"""The heads with the largest effects, task by task, as tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rolecall.analyses.number_text import number, share
from rolecall.reports.effect_figures import UNITS, largest
from rolecall.reports.terminal import print_whole

TOP = 6
LEGEND = (
    "Positive: the model does the task worse without the head. In brackets 95 % (bootstrap over "
    "templates, then items); * stands out among all heads and tasks (p_max < .05). repaired: the "
    "share of the direct effect that the rest undoes, or outweighs (> 100 %). damage: what the "
    "same replacement costs on unrelated text, in nats; × the effect relative to its size. A head "
    "that does damage everywhere, or whose effect goes when its mean is put in its place, is no "
    "specialist of the task."
)


def print_top_effects(
    effects: pd.DataFrame, tasks: Sequence[str], notes: Sequence[str], console: Console
) -> None:
    """Nothing; prints each task's leading heads, and what a reader must know."""
    for task in tasks:
        rows = effects[effects["task"] == task]
        if not rows.empty:
            console.print()
            console.print(_headline(task, rows), highlight=False)
            for kind, part in rows.groupby("ablation", sort=True):
                print_whole(table_of(part, str(kind), largest(rows, TOP)), console)
    console.print()
    console.print(LEGEND, style="dim", highlight=False)
    for note in notes:
        console.print(f"[yellow]note[/yellow] {escape(note)}", highlight=False)


def table_of(rows: pd.DataFrame, kind: str, heads: Sequence[str]) -> Table:
    """One kind of replacement on one task: these heads, largest effect first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(kind.replace("_", " "), no_wrap=True, min_width=11)
    for name in ("effect", "95 %", "", "direct", "repaired", "KL", "damage", "×"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = rows[rows["heads"].isin(heads)]
    order = shown["total"].abs().sort_values(ascending=False, kind="stable").index
    for row in shown.loc[order].to_dict("records"):
        ratio = row["per_damage"]
        table.add_row(
            escape(row["heads"]),
            number(row["total"], signed=True, digits=3),
            f"[{number(row['total_low'])}, {number(row['total_high'])}]",
            "*" if row["p_max"] < 0.05 else "",
            number(row["direct"], signed=True, digits=3),
            share(row["self_repair"]),
            number(row["kl"], digits=3),
            number(row["generic_damage"], signed=True, digits=3),
            number(ratio, digits=0 if pd.notna(ratio) and abs(ratio) >= 10 else 1),
        )
    return table


def print_race(rows: pd.DataFrame, band: float, console: Console) -> None:
    """Nothing; prints which heads were decided to matter, and what the race saved."""
    for task, part in rows.groupby("task", sort=True):
        ran, full = int(part["n_items"].sum()), int(part["of"].sum())
        counts = part["decision"].value_counts()
        said = ", ".join(f"{counts[name]} {name}" for name in sorted(counts.index))
        console.print(
            f"[bold]{escape(str(task))}[/bold]  {part['ablation'].iloc[0]}, band ±{band}: {said}; "
            f"{ran} of {full} head-items run ({full / max(ran, 1):.1f} times fewer)",
            highlight=False,
        )
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("head", no_wrap=True)
        for name in ("decision", "effect so far", "at least", "at most", "items"):
            table.add_column(name, justify="right", no_wrap=True)
        matter = part[part["decision"].isin(["helps", "hurts"])]
        order = matter["total"].abs().sort_values(ascending=False, kind="stable").index
        for row in matter.loc[order].to_dict("records"):
            bounds = (number(row[side], signed=True, digits=3) for side in ("low", "high"))
            effect = number(row["total"], signed=True, digits=3)
            table.add_row(row["heads"], row["decision"], effect, *bounds, str(row["n_items"]))
        print_whole(table, console)


def _headline(task: str, rows: pd.DataFrame) -> str:
    row = rows.iloc[0]
    unit = UNITS.get(row["metric"], "")
    clean = f"clean {number(row['clean'])} {unit}"
    if pd.notna(row["clean_accuracy"]):
        clean += f", {share(row['clean_accuracy'])} right"
    if pd.notna(row["control"]):
        clean += f" (chance {number(row['control'])})"
    metric = str(row["metric"]).replace("_", " ")
    able = "" if row["interpretable"] else "  [red]not interpretable[/red]"
    return f"[bold]{escape(task)}[/bold]  {metric}, {clean}, {row['n_items']} items{able}"
