"""Numbers as a reader sees them, in every sentence, page and table: one sign, no negative zero."""

from __future__ import annotations

import math


def number(value: float | None, *, signed: bool = False, digits: int = 2) -> str:
    """So many decimals, a true minus and no negative zero; a dash for what is missing.

    >>> number(-0.004), number(0.25, signed=True), number(-3.0), number(None)
    ('0.00', '+0.25', '−3.00', '–')
    """
    if value is None or value != value:
        return "–"
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return ("−" if value < 0 else "+" if signed else "") + text


def interval(low: float | None, high: float | None) -> str:
    """`low to high`, or a dash where there is none.

    >>> interval(-0.1, 0.25), interval(None, None)
    ('−0.10 to 0.25', '–')
    """
    if low is None or high is None or low != low or high != high:
        return "–"
    return f"{number(low)} to {number(high)}"


def share(value: float | None) -> str:
    """A share in percent; beyond the whole it says so, for the size then means nothing.

    >>> share(0.345), share(10.4), share(None)
    ('34 %', '> 100 %', '–')
    """
    if value is None or value != value:
        return "–"
    return "> 100 %" if value > 1 else f"{number(100 * value, digits=0)} %"


def times(value: float | None) -> str:
    """A ratio; past a hundred its size means nothing, and infinite where there is nothing else.

    >>> times(1.44), times(130.0), times(float("inf")), times(None)
    ('1.4 ×', '> 100 ×', '> 100 ×', '–')
    """
    if value is None or value != value:
        return "–"
    return "> 100 ×" if value > 100 else f"{number(value, digits=1)} ×"


def p_text(value: float | None) -> str:
    """A p-value; below a thousandth it says so.

    >>> p_text(0.0382), p_text(0.0002), p_text(None)
    ('0.038', '< 0.001', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    return "< 0.001" if value < 0.001 else number(value, digits=3)
