"""A figure on disk: vector, print and picture, with the rows it shows; the same bytes each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure


@contextmanager
def rolecall_style() -> Iterator[None]:
    """A context in which figures have rolecall's look; what the user had set comes back after."""
    sheet = as_file(files("rolecall.reports") / "rolecall.mplstyle")
    with sheet as path, matplotlib.style.context(str(path)):
        yield


def save_figure(figure: Figure, rows: pd.DataFrame, stem: Path) -> list[Path]:
    """The paths of `stem`.svg, .pdf, .png and .csv, the last with the rows that the figure shows.

    Dates are left out of the files, so that the same figure gives the same bytes.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "pdf", "png", "csv")]
    svg, pdf, png, csv = paths
    with rolecall_style():
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(pdf, metadata={"CreationDate": None})
        figure.savefig(png)
    rows.to_csv(csv, index=False, lineterminator="\n")
    return paths
