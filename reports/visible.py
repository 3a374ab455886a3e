"""Text from data as a reader can see it: what has no look of its own is spelled out."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

LINE_SIGNS = {"\n": "⏎", "\t": "⇥"}
"""What a line end and a tab become in a single token."""

BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]")
"""Letters and marks without a look, though Unicode does not count them as format characters."""


def visible(text: str) -> str:
    r"""The text, each character spelled that would steer a terminal, turn text round or not show.

    Line ends and tabs stay as they are.

    >>> visible("a\x1b[31m\u202eb\n")
    'a⟨U+001B⟩[31m⟨U+202E⟩b\n'
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_spelled, text))


def token_text(token: str) -> str:
    r"""A token on one line, its blanks included, with signs for line ends and tabs.

    >>> token_text(" a\n\u200b")
    ' a⏎⟨U+200B⟩'
    """
    return visible("".join(LINE_SIGNS.get(letter, letter) for letter in token))


def token_name(token: str) -> str:
    """A token without the blanks round it, or the sign of a blank where it is nothing else.

    >>> token_name(" a"), token_name("  ")
    ('a', '␣')
    """
    return token_text(token).strip() or "␣"


def shortened(text: str, most: int = 14) -> str:
    """The text on one line, cut to `most` letters."""
    seen = token_text(text)
    return seen if len(seen) <= most else f"{seen[: most - 1]}…"


@cache
def _spelled(letter: str) -> str:
    steers = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    hidden = (steers and letter not in LINE_SIGNS) or BLANK.fullmatch(letter)
    return f"⟨U+{ord(letter):04X}⟩" if hidden else letter
