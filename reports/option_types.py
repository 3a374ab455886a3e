"""What options may be: each value is checked while the command line is read.

So a mistake is answered before torch is imported or a model is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from rolecall.reports.writable import require_file, require_folder

DEVICES = ("cpu", "cuda", "mps", "xpu")
LARGEST_SEED = 2**31 - 1
MOST = 100_000
"""Examples or items that a role or task may be asked for; each is kept in memory."""


class Whole(click.IntRange):
    """A whole number within bounds; its name is for people."""

    name = "whole number"


class Checked(click.ParamType):
    """Text that a function looks at; its `ValueError` is the message."""

    def __init__(self, name: str, check: Callable[[str], object]):
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is."""
        try:
            self._check(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


class NamedPath(click.Path):
    """A path that is not empty; an empty one would be the current folder."""

    def __init__(self, check: Callable[[Path], object] | None = None):
        super().__init__(path_type=Path)
        self._check = check

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """The path, as far as `check` has nothing against it."""
        if not os.fspath(value).strip():
            self.fail("the path is empty; write . for the current folder", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            if self._check is not None:
                self._check(path)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return path


class Real(click.FloatRange):
    """A number within bounds, and a finite one."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, param, ctx)
        if number - number != 0:
            self.fail(f"{value} is no finite number", param, ctx)
        return number


def given(*names: str) -> list[str]:
    """Which of the running command's options were typed, by the names of their parameters."""
    context = click.get_current_context()
    return [n for n in names if context.get_parameter_source(n) is ParameterSource.COMMANDLINE]


def _device(text: str) -> None:
    if not re.fullmatch(rf"({'|'.join(DEVICES)})(:\d{{1,3}})?", text):
        raise ValueError(
            f"no device is named {text!r}; name {', '.join(DEVICES)}, or one of several like cuda:1"
        )


def _role(text: str) -> None:
    from rolecall.probes.registry import find

    find([text])


def _task(text: str) -> None:
    from rolecall.probes.task_names import require_task_name

    require_task_name(text)


def _task_file(path: Path) -> None:
    from rolecall.analyses.task_lines import require_lines

    require_lines(path)


def _head(text: str) -> None:
    from rolecall.analyses.head_names import named_head

    named_head(text)


def _heads(text: str) -> None:
    from rolecall.analyses.head_names import named_sets

    named_sets([text])


def _treebank(path: Path) -> None:
    from rolecall.probes.treebank import require_treebank

    require_treebank(path)


SEED = Whole(0, LARGEST_SEED)
COUNT = Whole(1, MOST)
DEVICE = Checked("device", _device)
ROLE = Checked("role", _role)
TASK = Checked("task", _task)
HEAD = Checked("head", _head)
HEADS = Checked("heads", _heads)
PATH = NamedPath()
TASK_FILE = NamedPath(_task_file)
TREEBANK = NamedPath(_treebank)
OUT_FOLDER = NamedPath(require_folder)
OUT_FILE = NamedPath(require_file)
SHARE = Real(0, 1)
ERROR_RATE = Real(0, 1, min_open=True, max_open=True)
AT_LEAST_0 = Real(0)
ABOVE_0 = Real(0, min_open=True)
