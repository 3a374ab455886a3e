"""The leading heads of each role, as a table on the terminal."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

TOP = 3


def print_top_heads(scores: pd.DataFrame, manifest: dict[str, Any], console: Console) -> None:
    """Nothing; prints the best heads of each role, and which roles could not be scored and why."""
    model = manifest["model"]
    console.print(
        f"[bold]{model['name']}[/bold]  {model['n_layers']} layers × {model['n_heads']} heads"
        f" ({model['n_kv_heads']} KV), {model['dtype']}, {_start(model)}",
        highlight=False,
    )
    console.print(table_of_top_heads(scores))
    console.print(
        "✓ beats the best simpler account (95 % interval) and chance among all heads and roles "
        "(p_max < .05). Scores describe attention on these probes; whether the model depends on a "
        "head is for `rolecall ablate` to say.",
        style="dim",
        highlight=False,
    )
    for role, facts in sorted(manifest["roles"].items()):
        dropped = ", ".join(f"{count} × {why}" for why, count in sorted(facts["dropped"].items()))
        if not facts["used"]:
            console.print(f"[yellow]{role}[/yellow]: not scored: {dropped}", highlight=False)
        elif dropped:
            console.print(f"{role}: dropped {dropped}", style="dim", highlight=False)


def _start(model: dict[str, Any]) -> str:
    start = (model.get("bos") or {}).get("id")
    return "no start token" if start is None else f"start token {start}"


def table_of_top_heads(scores: pd.DataFrame) -> Table:
    """The best `TOP` heads of each role."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("role", no_wrap=True)
    table.add_column("head", no_wrap=True)
    for name in ("score", "95 %", "chance", "baseline", "margin", "specific", "sink"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for role, rows in scores.groupby("role", sort=True):
        best = rows.sort_values("score", ascending=False, kind="stable").head(TOP)
        for i, row in enumerate(best.to_dict("records")):
            table.add_row(f"{role}" if i == 0 else "", *_cells(row), end_section=i == len(best) - 1)
    return table


def _cells(row: dict[Any, Any]) -> list[str]:
    interval = f"{_number(row['ci_low'])}–{_number(row['ci_high'])}"
    beats = (row["margin_low"] or 0) > 0 and (row["p_max"] or 1) < 0.05
    return [
        f"L{row['layer']}H{row['head']}",
        f"{_number(row['score'])} {row['score_kind']}",
        interval if pd.notna(row["ci_low"]) else "too few templates",
        _number(row["chance"]),
        f"{_number(row['baseline'])} {row['baseline_name']}",
        f"{row['margin']:+.2f}",
        _number(row["specificity"]),
        _number(row["sink"]),
        "✓" if beats else "",
    ]


def _number(value: float | None) -> str:
    return "–" if value is None or pd.isna(value) else f"{value:.2f}"
