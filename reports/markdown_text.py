"""Values inside Markdown: they read as what they are, and none of them is markup."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup

from rolecall.reports.visible import visible

SIGNS = re.compile(r"[\\`*{}\[\]|~$]|(?<!\w)_|_(?!\w)|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
"""What is markup anywhere in a line: `_` not within a word, `<` and `&` before tag or entity."""

STARTS = re.compile(r"^[-+](?!\w)|^[#>=]")
NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
"""What is markup only where a line begins: headings, quotations, lists and rules."""


def markdown_text(value: Any) -> Markup:
    r"""The value on one line, its signs escaped; markup of the template's own stays as it is.

    >>> print(markdown_text("a_b | <!-- x"))
    a_b \| \<!-- x
    """
    if isinstance(value, Markup):
        return value
    line = re.sub(r"\s+", " ", visible(str(value)))
    line = SIGNS.sub(r"\\\g<0>", line)
    return Markup(STARTS.sub(r"\\\g<0>", NUMBERED.sub(r"\1\\\2", line)))


def markdown_code(value: Any) -> Markup:
    """The value as code within a line, between more backticks than it has in a row."""
    line = " ".join(visible(str(value)).split())
    ticks = "`" * (_longest(line) + 1)
    room = " " if line.startswith("`") or line.endswith("`") else ""
    # In a table a bar ends the cell, even within code.
    return Markup(f"{ticks}{room}{line}{room}{ticks}".replace("|", r"\|"))


def markdown_block(value: Any, language: str) -> Markup:
    """The lines as a block of code, between more backticks than any of them has in a row."""
    text = visible(str(value)).strip("\n")
    ticks = "`" * max(_longest(text) + 1, 3)
    return Markup(f"{ticks}{language}\n{text}\n{ticks}")


def _longest(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
