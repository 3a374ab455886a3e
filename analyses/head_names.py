"""Heads by name: `L5H1` is head 1 of layer 5, both from 0. No model is needed to read one."""

from __future__ import annotations

import re
from collections.abc import Iterable

Head = tuple[int, int]
"""Layer and query head, both from 0."""

_NAME = re.compile(r"L([0-9]{1,6})H([0-9]{1,6})", re.IGNORECASE)


def head_name(head: Head) -> str:
    """`L5H1` for (5, 1)."""
    return f"L{head[0]}H{head[1]}"


def named_head(text: str) -> Head:
    """The layer and head that a name like `L5H1` means.

    Raises:
        ValueError: It is no such name.
    """
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"a head is named like L5H1, not {text!r}")
    return int(match[1]), int(match[2])


def named_sets(texts: Iterable[str]) -> list[tuple[Head, ...]]:
    """The sets of heads in texts like `L5H1,L6H0+L6H1`: commas apart, `+` together.

    Raises:
        ValueError: A name is wrong, or there is none.
    """
    names = [part for text in texts for part in text.split(",") if part.strip()]
    if not names:
        raise ValueError("no head is named; heads are named like L5H1")
    return [tuple(named_head(part) for part in name.split("+")) for name in names]


def require_before(receiver: Head, senders: Iterable[Head] = ()) -> None:
    """Nothing, if the senders stand in earlier layers than the receiver.

    Raises:
        ValueError: One does not, or no layer comes before the receiver's.
    """
    if not receiver[0]:
        raise ValueError(f"{head_name(receiver)} is in the first layer: no head comes before it")
    late = sorted(head for head in senders if head[0] >= receiver[0])
    if late:
        raise ValueError(f"{head_name(late[0])} is not before {head_name(receiver)}")
