"""The last line of a command: where its files lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def print_written(console: Console, path: Path, *, said: str = "\nWritten to") -> None:
    """Nothing; prints the path, a folder with a slash, whole and as it is spelled."""
    end = "/" if path.is_dir() else ""
    console.print(f"{said} {path}{end}", highlight=False, markup=False, soft_wrap=True)
