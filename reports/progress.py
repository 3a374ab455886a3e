"""A progress bar on standard error: what is being done, how fast, how much time is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rolecall.reports.terminal import Terminal


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A function to tell what is being done, how many units are done, and how many there are."""
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Terminal(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("loading", total=None, rate="")

        def told(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)
            speed = progress.tasks[0].speed
            progress.update(task, rate=f"{speed:,.0f} {unit}/s" if speed else "")

        yield told
