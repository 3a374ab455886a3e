"""The leading heads of each role, as a table on the terminal."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rolecall.analyses.number_text import number
from rolecall.reports.terminal import print_whole

TOP = 3


def print_top_heads(scores: pd.DataFrame, manifest: dict[str, Any], console: Console) -> None:
    """Nothing; prints the best heads of each role, and which roles could not be scored and why."""
    model = manifest["model"]
    console.print(
        f"[bold]{escape(str(model['name']))}[/bold]  "
        f"{model['n_layers']} layers × {model['n_heads']} heads ({model['n_kv_heads']} KV), "
        f"{model['dtype']}, {_start(model)}",
        highlight=False,
    )
    print_whole(table_of_top_heads(scores), console)
    console.print(
        "✓ beats the best simpler account (95 % interval) and chance among all heads and roles "
        "(p_max < .05). Scores describe attention on these probes; whether the model depends on a "
        "head is for `rolecall ablate` to say.",
        style="dim",
        highlight=False,
    )
    for line in left_out(manifest["roles"]):
        console.print(escape(line), style="dim", highlight=False)


def left_out(roles: dict[str, Any]) -> list[str]:
    """One line for each reason why roles or items were left out."""
    whole: dict[str, list[str]] = {}
    parts = []
    for role, facts in sorted(roles.items()):
        if not facts["used"]:
            whole.setdefault(", ".join(sorted(facts["dropped"])), []).append(role)
        else:
            parts += [f"{role}: {n} × {why}" for why, n in sorted(facts["dropped"].items())]
    return [f"not scored, {why}: {', '.join(names)}" for why, names in whole.items()] + parts


def _start(model: dict[str, Any]) -> str:
    start = (model.get("bos") or {}).get("id")
    return "no start token" if start is None else f"start token {start}"


def table_of_top_heads(scores: pd.DataFrame) -> Table:
    """The best `TOP` heads of each role; it fits a terminal of 80 columns."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("role", overflow="fold", min_width=16)
    table.add_column("head", no_wrap=True)
    for name in ("score", "95 %", "chance", "base", "margin", "spec.", "sink"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for role, rows in scores.groupby("role", sort=True):
        best = rows.sort_values("score", ascending=False, kind="stable").head(TOP)
        kind, name = best["score_kind"].iloc[0], best["baseline_name"].iloc[0]
        notes = [str(role), f"[dim]  by {kind}[/dim]", f"[dim]  base: {escape(str(name))}[/dim]"]
        cells = [_cells(row) for row in best.to_dict("records")]
        cells += [[""] * len(cells[0])] * (len(notes) - len(cells))
        for note, row in zip(notes, cells, strict=False):
            table.add_row(note, *row)
    return table


def _cells(row: dict[Any, Any]) -> list[str]:
    interval = f"{_number(row['ci_low'])}–{_number(row['ci_high'])}"
    beats = (row["margin_low"] or 0) > 0 and (row["p_max"] or 1) < 0.05
    return [
        f"L{row['layer']}H{row['head']}",
        _number(row["score"]),
        interval if pd.notna(row["ci_low"]) else "–",
        _number(row["chance"]),
        _number(row["baseline"]),
        number(row["margin"], signed=True),
        _number(row["specificity"]),
        _number(row["sink"]),
        "✓" if beats else "",
    ]


def _number(value: float | None) -> str:
    """Two decimals, without the leading 0 of a share."""
    text = number(value)
    return text.replace("0.", ".", 1) if text.lstrip("−").startswith("0.") else text
