"""The commands that made a run, kept in its folder: what to type to make it again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

FILE = "commands.txt"
FOLDER = "RUN"
"""Stands for the run folder, wherever it was."""
NOT_PATHS = (
    *("--role", "--task", "--kind", "--heads", "--group", "--to", "--from", "--device", "--dtype"),
    *("--revision", "-n", "--seed"),
)
"""Options whose values are no paths, even where a file happens to have that name."""


@dataclass
class Typed:
    """What was typed, and the run folder it writes to, once that is known.

    It is click's context object while `rolecall` runs from the command line.
    """

    arguments: Sequence[str]
    folder: Path | None = None


def writes_to(folder: Path) -> None:
    """Nothing; tells the command that runs now, if any, which run folder it writes to."""
    typed = _typed()
    if typed is not None:
        typed.folder = folder


def keep_command(folder: Path) -> None:
    """Nothing; adds the command that runs now, if any, to those kept in the run folder."""
    typed = _typed()
    if typed is not None:
        keep(typed.arguments, folder)


def keep(arguments: Sequence[str], folder: Path) -> None:
    """Nothing; adds a command to those kept in the run folder, unless it stands there already."""
    line, kept = as_line(arguments, folder), kept_commands(folder)
    if line not in kept:
        (folder / FILE).write_text("\n".join([*kept, line, ""]), encoding="utf-8")


def kept_commands(folder: Path) -> tuple[str, ...]:
    """The commands kept in a run folder, in order.

    Raises:
        ValueError: The file is not UTF-8 text.
    """
    path = folder / FILE
    if not path.is_file():
        return ()
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}); correct or remove it") from None
    return tuple(line for line in text.splitlines() if line.strip())


def as_line(arguments: Sequence[str], folder: Path) -> str:
    """The command as one line for a shell, the run folder being called RUN.

    A file or folder that is there is named from the root, so that the line holds in any folder.

    >>> as_line(["scan", "my model", "-n", "8"], Path("here/run"))
    "rolecall scan 'my model' -n 8 --out RUN"
    >>> as_line(["verdict", "here/run/"], Path("here/run"))
    'rolecall verdict RUN'
    """
    said = []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        option, equals, value = argument.partition("=")
        if argument.startswith("--out="):
            said += ["--out", FOLDER]
        elif _same(argument, folder):
            said.append(FOLDER)
        elif option.startswith("--") and equals:
            said.append(f"{option}={_from_root(option, value)}")
        else:
            said.append(_from_root(before, argument))
    if FOLDER not in said:
        said += ["--out", FOLDER]
    return shlex.join(["rolecall", *said])


def _from_root(before: str, argument: str) -> str:
    """The argument, as an absolute path where it is one; `before` is the word before it."""
    if before in ("", *NOT_PATHS) or argument.startswith("-") or not Path(argument).exists():
        return argument
    return str(Path(argument).absolute())


def _same(argument: str, folder: Path) -> bool:
    return bool(argument) and Path(argument).absolute() == folder.absolute()


def _typed() -> Typed | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.find_object(Typed)
