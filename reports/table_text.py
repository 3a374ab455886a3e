"""Rows as text: for the terminal, as CSV, LaTeX or Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.analyses.number_text import number

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
}


def as_csv(rows: pd.DataFrame) -> str:
    """The rows as CSV, numbers in full; what is missing is empty."""
    return rows.to_csv(index=False, lineterminator="\n")


def as_markdown(rows: pd.DataFrame) -> str:
    """The rows as a Markdown table, numbers to the right."""
    numeric = [pd.api.types.is_numeric_dtype(rows[name]) for name in rows]
    lines = [
        [str(name) for name in rows],
        ["---:" if right else "---" for right in numeric],
        *_cells(rows),
    ]
    said = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "".join(f"| {line} |\n" for line in said)


def as_latex(rows: pd.DataFrame, *, caption: str = "", label: str = "") -> str:
    """The rows as a LaTeX table (booktabs), everything in them escaped."""
    numeric = [pd.api.types.is_numeric_dtype(rows[name]) for name in rows]
    columns = "".join("r" if right else "l" for right in numeric)
    head = " & ".join(escaped(str(name).replace("_", " ")) for name in rows)
    body = [" & ".join(map(escaped, line)) + r" \\" for line in _cells(rows)]
    lines = [r"\begin{tabular}{" + columns + "}", r"\toprule", head + r" \\", r"\midrule"]
    lines += [*body, r"\bottomrule", r"\end{tabular}"]
    if caption:
        # Needs \usepackage{booktabs}.
        tail = [rf"\caption{{{escaped(caption)}}}", rf"\label{{{label}}}"]
        lines = [r"\begin{table}", r"\centering", *lines, *tail, r"\end{table}"]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """The text with what LaTeX reads as commands made harmless."""
    return "".join(LATEX.get(letter, letter) for letter in text)


def print_rows(rows: pd.DataFrame, console: Console, *, most: int | None = None) -> None:
    """Nothing; prints the rows, the first `most` of them."""
    shown = rows if most is None else rows.head(most)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows:
        right = pd.api.types.is_numeric_dtype(rows[name])
        table.add_column(Text(str(name)), justify="right" if right else "left", no_wrap=True)
    for line in _cells(shown):
        table.add_row(*(Text(cell) for cell in line))
    # A wide table is not folded: a pipe wants whole lines, a terminal wraps them itself.
    wide = Console(file=console.file, width=10_000, force_terminal=console.is_terminal)
    wide.print(table)
    if len(shown) < len(rows):
        console.print(f"and {len(rows) - len(shown)} more rows", style="dim", highlight=False)


def _cells(rows: pd.DataFrame) -> Iterable[list[str]]:
    return ([cell_text(value) for value in line] for line in rows.itertuples(index=False))


def cell_text(value: Any) -> str:
    """A value as a reader sees it: three decimals, nothing for what is missing.

    >>> cell_text(-0.0001), cell_text(-2.5), cell_text(-1), cell_text(None)
    ('0.000', '−2.500', '−1', '')
    """
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, float):
        return number(value, digits=3) if abs(value) < 1000 else f"{value:.4g}".replace("-", "−")
    return str(value).replace("-", "−") if isinstance(value, Integral) else str(value)
