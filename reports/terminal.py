"""The terminal that commands print to: what a token or a name holds cannot steer it."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.reports.visible import visible


class Terminal(Console):
    """A console of rich that spells out invisible characters and leaves `:names:` as they are."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as rich sets it, whole strings and cells of tables alike."""
        return super().render_str(visible(text), **options)


def print_whole(table: Table, console: Console) -> None:
    """Nothing; prints the table at its own width, so that no number is cut.

    A pipe wants whole lines, and a terminal wraps them itself.
    """
    wide = Terminal(
        file=console.file,
        width=10_000,
        force_terminal=console.is_terminal,
        no_color=console.no_color,
        record=False,
    )
    wide.print(table)
