"""Numbers as a reader sees them."""

from __future__ import annotations


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
    return "> 100 %" if value > 1 else f"{100 * value:.0f} %"
