"""A figure on disk: vector, print and picture, with the rows it shows; the same bytes each time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from io import StringIO
from pathlib import Path

import matplotlib
import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

COLUMN_WIDTH = {1: 3.4, 2: 7.0}
"""Inches: a figure for one column of a paper, or for both."""
NAME_ROOM = 40
"""Letters of a name in a file's name: four bytes each, and a few names, are under 255 together."""


@contextmanager
def rolecall_style() -> Iterator[None]:
    """A context in which figures have rolecall's look; what the user had set comes back after."""
    sheet = as_file(files("rolecall.reports") / "rolecall.mplstyle")
    with sheet as path, matplotlib.style.context(str(path)):
        yield


class NotebookFigure(Figure):
    """A figure that a notebook shows without being told how, though it is not pyplot's."""

    def _repr_svg_(self) -> str:
        return as_svg(self)


def new_axes(columns: int, height: float) -> Axes:
    """Axes of a new figure as wide as one or two columns, `height` inches high.

    The figure is not pyplot's: it needs no display and no closing. Call it in `rolecall_style`.
    """
    return NotebookFigure(figsize=(column_width(columns), height)).subplots()


def column_width(columns: int) -> float:
    """Inches of one or two columns of a paper.

    Raises:
        ValueError: Neither one nor two.
    """
    if columns not in COLUMN_WIDTH:
        raise ValueError(f"a figure is 1 or 2 columns wide, not {columns}")
    return COLUMN_WIDTH[columns]


def finished(axes: Axes, rows: pd.DataFrame, save: Path | None) -> Axes:
    """The axes; with `save`, a path without ending, their figure is saved beside its rows."""
    if save is not None:
        figure = axes.figure
        assert isinstance(figure, Figure), "figures of figures are not saved apart"
        save_figure(figure, rows, Path(save))
    return axes


def save_figure(figure: Figure, rows: pd.DataFrame, stem: Path) -> list[Path]:
    """The paths of `stem`.svg, .pdf, .png and .csv, the last with the rows that the figure shows.

    Dates are left out of the files, so that the same figure gives the same bytes.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "pdf", "png", "csv")]
    svg, pdf, png, csv = paths
    for text in figure.findobj(Text):
        # One glyph for two letters is a second font in a PDF, and as much work as the first.
        text.set_fontfeatures(("-liga",))
    with rolecall_style(), _laid_out(figure):
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(pdf, metadata={"CreationDate": None})
        figure.savefig(png)
    rows.to_csv(csv, index=False, lineterminator="\n")
    return paths


def as_svg(figure: Figure) -> str:
    """The figure as one `<svg>` element, as it can stand in a page."""
    drawn = StringIO()
    with rolecall_style():
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return "<svg" + drawn.getvalue().partition("<svg")[2]


def figure_name(*names: str) -> str:
    """A file's name, without ending, for the figure of a role, task or the like.

    A name that cannot be part of a file's name as it stands keeps the letters that can be, with a
    digest of the whole behind them, so no two names share a file and none leaves the folder.

    >>> figure_name("scores", "induction"), figure_name("scores", "../a")
    ('scores-induction', 'scores----a-61b4c98b')
    """
    return "-".join(map(_file_name, names))


def _file_name(name: str) -> str:
    plain = "".join(c if c.isalnum() or c in "_+-" else "-" for c in name)
    if plain == name and len(name) <= NAME_ROOM:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain[:NAME_ROOM]}-{digest[:8]}"


@contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """A context in which the figure's layout is worked out once, not again for each file."""
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    try:
        yield
    finally:
        figure.set_layout_engine(engine)
