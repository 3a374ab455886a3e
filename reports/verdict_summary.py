"""What a person wants to know of a run: how many heads of each role, the leading ones, the rest."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rolecall.analyses.labels import NO_LABEL
from rolecall.analyses.number_text import number, share
from rolecall.analyses.verdict import Verdicts
from rolecall.reports.standing import TIER_NOTES, counted, standings
from rolecall.reports.visible import visible

TOP = 3
TIERS = ("A", "B", "C", "E")
BAR = 0.8
"""Overlap of labelled heads over resamples below which a list of heads is not to be relied on."""


def print_verdicts(result: Verdicts, console: Console) -> None:
    """Nothing; prints counts, leading heads, stability, sensitivity and what was not decided."""
    heads = result.heads
    console.print(table_of_roles(result))
    found = standings(heads, result.verdicts)
    if found:
        console.print(f"\nOf the heads with a label, {counted(found)}.", highlight=False)
    none = heads["label"] == NO_LABEL
    helpers = none & (heads["tier"] == "D")
    console.print(
        f"\n{int(none.sum())} of {len(heads)} heads ({share(none.mean())}) have no clean label, "
        f"the usual case; {_said_of_helpers(result, int(helpers.sum()))}",
        highlight=False,
    )
    overlap = result.jaccard.get("all")
    if overlap is not None:
        word = "firm" if overlap >= BAR else f"below {BAR}: read the list with care"
        console.print(
            f"Overlap of the labelled heads with those of a resample: {number(overlap)} ({word}).",
            highlight=False,
        )
    console.print(sensitivity_line(result.sensitivity), highlight=False)
    for note in result.notes:
        console.print(f"[yellow]·[/yellow] {escape(note)}", highlight=False)
    given = set(heads["tier"].dropna())
    said = "; ".join(f"{tier} {words}" for tier, words in TIER_NOTES.items() if tier in given)
    said += ". " * bool(said)
    console.print(
        f"{said}Labels describe behaviour on these probes, in this checkpoint.",
        style="dim",
        highlight=False,
    )


def _said_of_helpers(result: Verdicts, helpers: int) -> str:
    if not helpers and not result.verdicts["total"].notna().any():
        return "whether they matter to a task was not measured (`rolecall ablate`)."
    return f"{helpers} of them matter to some task without the pattern of its role (tier D)."


def table_of_roles(result: Verdicts) -> Table:
    """Per role the number of heads in each tier, and the leading heads with their reasons."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("role", no_wrap=True)
    for tier in TIERS:
        table.add_column(tier, justify="right")
    table.add_column("leading heads")
    table.add_column("why the first")
    labelled = result.heads[result.heads["label"] != NO_LABEL]
    for role, rows in labelled.groupby("label", sort=True):
        order = rows.assign(rank=rows["tier"].map(list("ABCE").index))
        best = order.sort_values(["rank", "score"], ascending=[True, False], kind="stable").head(
            TOP
        )
        counts = [str(int((rows["tier"] == tier).sum()) or "") for tier in TIERS]
        records = cast("list[dict[str, Any]]", best.to_dict("records"))
        names = "\n".join(_named(row) for row in records)
        why = Text(visible(_why(result.verdicts, best.iloc[0], str(role))))
        table.add_row(str(role), *counts, names, why)
    return table


def _named(row: dict[str, Any]) -> str:
    total = number(row["total"], signed=True)
    effect = f", effect {total}" if pd.notna(row["total"]) else ""
    return f"L{row['layer']}H{row['head']} {row['tier']} {number(row['score'])}{effect}"


def _why(verdicts: pd.DataFrame, head: pd.Series, role: str) -> str:
    same = (verdicts["layer"] == head["layer"]) & (verdicts["head"] == head["head"])
    rows = verdicts[same & (verdicts["role"] == role)]
    return str(rows["reasons"].iloc[0]) if len(rows) else ""


def sensitivity_line(rows: pd.DataFrame) -> str:
    """How many labels flip when each threshold is moved by a quarter, down / up."""
    parts = []
    for name, pair in rows.groupby("threshold", sort=False):
        down, up = pair["flips"]
        parts.append(f"{str(name).replace('_', ' ')} {down}/{up}")
    return "Labels that flip when a threshold is moved by −25 % / +25 %: " + ", ".join(parts) + "."
