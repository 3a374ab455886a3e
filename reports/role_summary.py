"""Which heads do each role and does it matter: the page's first table, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.reports.matters import RoleStory
from rolecall.reports.visible import visible


def role_table(stories: Sequence[RoleStory]) -> pd.DataFrame:
    """One row a role: role, matters (in a word), heads (names of those that hold it), sentence."""
    rows = [
        (story.role, story.verdict, " ".join(head["name"] for head in story.heads), story.sentence)
        for story in stories
    ]
    return pd.DataFrame(rows, columns=["role", "matters", "heads", "sentence"])


def print_roles(stories: Sequence[RoleStory], console: Console) -> None:
    """Nothing; prints a line or some for each role, folded to the width of the terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("role", overflow="fold", max_width=16)
    table.add_column("matters?", overflow="fold", max_width=13)
    table.add_column("which heads")
    for story in stories:
        table.add_row(story.role, story.verdict, Text(visible(story.sentence)))
    console.print(table)
