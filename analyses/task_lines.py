"""The lines of a task file as JSON, before any model reads them (design §7).

    {"prompt": "The keys to the cabinet", "answer": " are", "foil": " is", "twin": "...",
     "template": "..."}

`twin` and `template` may be left out. A line that cannot be used is named and left out; the rest
goes on.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

REQUIRED = ("prompt", "answer", "foil")
KNOWN = (*REQUIRED, "twin", "template")


def read_lines(
    path: Path, make: Callable[[Mapping[str, Any], int], Any]
) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """What `make` makes of each line's object and number, and what is wrong with other lines.

    What is wrong, a `ValueError` of `make` as well, is told as `file:line: what`.

    Raises:
        ValueError: There is no such file, or no line of it can be used.
    """
    made: list[Any] = []
    problems: list[str] = []
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            made.append(make(_parse(_text(line)), number))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    if not made:
        why = "; ".join(problems[:3]) + f" … ({len(problems)} lines)" * (len(problems) > 3)
        raise ValueError(why or f"{path} is empty; it must hold one JSON object a line")
    return tuple(made), tuple(problems)


def require_lines(path: Path) -> None:
    """Nothing, if some line of the file may be a task.

    Raises:
        ValueError: There is no such file, or no line of it can be used with any model.
    """
    read_lines(path, lambda said, _: said)


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().removeprefix(BOM_UTF8).split(b"\n")
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from None


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = line[error.start]
        raise ValueError(f"no UTF-8 text: byte {wrong:#04x} at column {error.start + 1}") from None


def _parse(line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("no JSON that can be read: it is nested too deep") from None
    if not isinstance(said, dict):
        raise ValueError(f"an object is needed, not a {type(said).__name__}")
    unknown = sorted(set(said) - set(KNOWN))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; keys are {', '.join(KNOWN)}")
    for key in REQUIRED:
        if not said.get(key):
            raise ValueError(f"{key!r} is missing; {', '.join(REQUIRED)} are needed")
    for key, value in said.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{key!r} must be text, not {value!r}")
        if any("\ud800" <= letter <= "\udfff" for letter in value or ""):
            raise ValueError(f"{key!r} holds half of a surrogate pair, which is no letter")
    return said
