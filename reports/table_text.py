"""Rows as text: for the terminal, as CSV, LaTeX or Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.analyses.number_text import number
from rolecall.reports.terminal import print_whole
from rolecall.reports.visible import visible

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
    "|": r"\textbar{}",
    # At the beginning of a row these two would belong to the end of the row above.
    "[": "{[}",
    "*": "{*}",
    "−": "$-$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "→": r"$\to$",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
    "\n": " ",
    "\t": " ",
}
PDFLATEX = re.compile("[\x00-\u017f–—‘’“”„‚…•€]*")
"""What pdflatex typesets without more packages; other scripts need an engine that reads fonts."""
LONG = 40
"""Rows that a page of a paper has room for; a longer table goes over pages."""
MARKDOWN = {letter: f"\\{letter}" for letter in "\\`*_[<|~&$"} | {"\n": "<br>"}


def as_csv(rows: pd.DataFrame) -> str:
    """The rows as CSV, numbers in full; what is missing is empty."""
    return rows.to_csv(index=False, lineterminator="\n")


def as_markdown(rows: pd.DataFrame) -> str:
    """The rows as a Markdown table, numbers to the right."""
    numeric = [pd.api.types.is_numeric_dtype(rows[name]) for name in rows]
    lines = [[str(name) for name in rows], *_cells(rows)]
    head, *body = (" | ".join(map(_as_shown, line)) for line in lines)
    rule = " | ".join("---:" if right else "---" for right in numeric)
    return "".join(f"| {line} |\n" for line in (head, rule, *body))


def _as_shown(text: str) -> str:
    """The text as Markdown that shows it, letter by letter."""
    return "".join(MARKDOWN.get(letter, letter) for letter in visible(text))


def as_latex(rows: pd.DataFrame, *, caption: str = "", label: str = "") -> str:
    """The rows as a LaTeX table, everything in them escaped; a long one goes over pages.

    Comments at the top name the packages, and the engine where pdflatex would not do.
    """
    numeric = [pd.api.types.is_numeric_dtype(rows[name]) for name in rows]
    columns = "".join("r" if right else "l" for right in numeric)
    head = " & ".join(escaped(str(name).replace("_", " ")) for name in rows)
    body = [" & ".join(map(escaped, line)) + r" \\" for line in _cells(rows)]
    long = len(body) > LONG
    named = rf"\caption{{{escaped(caption)}}}\label{{{label}}}" if caption else ""
    middle = [r"\toprule", head + r" \\", r"\midrule" + r"\endhead" * long, *body, r"\bottomrule"]
    if long:
        middle = [*([named + r" \\"] if named else []), *middle]
    kind = "longtable" if long else "tabular"
    lines = [rf"\begin{{{kind}}}{{{columns}}}", *middle, rf"\end{{{kind}}}"]
    if named and not long:
        lines = [r"\begin{table}", r"\centering", *lines, named, r"\end{table}"]
    lines = [rf"% \usepackage{{booktabs{',longtable' * long}}}", *lines]
    if not PDFLATEX.fullmatch("".join(lines)):
        lines = ["% for xelatex or lualatex, with a font that has these letters", *lines]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """The text with what LaTeX reads as commands made harmless, and what does not show spelled."""
    return "".join(LATEX.get(letter, letter) for letter in visible(text))


def print_rows(rows: pd.DataFrame, console: Console, *, most: int | None = None) -> None:
    """Nothing; prints the rows, the first `most` of them."""
    shown = rows if most is None else rows.head(most)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows:
        right = pd.api.types.is_numeric_dtype(rows[name])
        table.add_column(
            Text(visible(str(name))), justify="right" if right else "left", no_wrap=True
        )
    for line in _cells(shown):
        table.add_row(*(Text(visible(cell)) for cell in line))
    print_whole(table, console)
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
