"""A run as a notebook shows it."""

from __future__ import annotations

from html import escape

from matplotlib.figure import Figure

from rolecall.reports.atlas import atlas
from rolecall.reports.matters import headline
from rolecall.reports.run import Run
from rolecall.reports.saving import as_svg
from rolecall.reports.visible import visible


def run_html(run: Run) -> str:
    """The run's name, what it found, and its atlas; no atlas where no head was looked at."""
    name, said = (escape(visible(text)) for text in (run.name, " ".join(headline(run))))
    text = f"<p><b>{name}</b><br>{said}</p>"
    looked_at = [run.table(table) for table in ("scores", "heads")]
    if all(rows is None or rows.empty for rows in looked_at):
        return text
    figure = atlas(run, columns=2).get_figure(root=True)
    assert isinstance(figure, Figure)
    return f"{text}\n{as_svg(figure)}"
