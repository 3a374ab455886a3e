"""A key of roles, colour and two letters, for figures that name heads and tell their roles."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from rolecall.reports.palette import role_colour, role_letters
from rolecall.reports.run import NO_LABEL

LINE = 0.135
"""Inches that a line of a key takes."""


def letters_of(labels: Iterable[str]) -> dict[str, str]:
    """Two letters for each role among the labels of heads."""
    return role_letters(label for label in labels if label != NO_LABEL)


def key_below(axes: Axes, lines: list[Line2D], letters: dict[str, str], *, columns: int) -> None:
    """Nothing; writes what the lines are and what the letters and colours of roles, if any.

    The figure grows by the lines that this takes.
    """
    roles = [
        Patch(facecolor=role_colour(role), label=f"{two}  {role.replace('_', ' ')}")
        for role, two in sorted(letters.items())
    ]
    handles = [*lines, *roles]
    if not handles:
        return
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    per_line = 3 * columns
    figure.set_figheight(figure.get_figheight() + LINE * -(-len(handles) // per_line))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=per_line,
        columnspacing=0.8,
        handletextpad=0.4,
        fontsize=6.5,
    )
