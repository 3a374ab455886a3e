"""Every figure that a run's tables allow, in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes

from rolecall.reports.atlas import atlas
from rolecall.reports.composition_figure import composition_graph
from rolecall.reports.depth import depth_profile
from rolecall.reports.effect_figures import effect_forest
from rolecall.reports.heatmap import role_heatmap
from rolecall.reports.own_task import own_tasks
from rolecall.reports.pruning_figure import pruning_curves
from rolecall.reports.repair import total_direct_repair
from rolecall.reports.run import ALSO, MADE_BY, Run
from rolecall.reports.saving import figure_name
from rolecall.reports.score_effect import score_against_effect
from rolecall.reports.sensitivity_figure import label_sensitivity
from rolecall.reports.similarity import similarity_clusters

Draw = Callable[..., Axes]

FIGURES: dict[str, tuple[tuple[str, ...], Draw]] = {
    "atlas": (("scores",), atlas),
    "depth": (("scores",), depth_profile),
    "similarity": (("scores",), similarity_clusters),
    "score-against-effect": (("scores", "effects"), score_against_effect),
    "composition": (("composition",), composition_graph),
    "sensitivity": (("sensitivity",), label_sensitivity),
}
"""Figures of a whole run: name → the tables it needs, and what draws it."""


@dataclass(frozen=True)
class Drawn:
    """What came of drawing.

    Attributes:
        names: The figures drawn.
        left_out: Name → why there is no such figure.
    """

    names: tuple[str, ...]
    left_out: Mapping[str, str]


def draw_all(run: Run, folder: Path) -> Drawn:
    """The names of the figures drawn into the folder, and why others are left out.

    A figure that its rows do not allow is left out; the others are drawn all the same.
    """
    names, left_out = [], lacking(run)
    for name, draw in figures_of(run):
        try:
            draw(save=folder / name)
        except ValueError as error:
            left_out[name] = str(error)
        else:
            names.append(name)
    return Drawn(tuple(names), left_out)


def lacking(run: Run) -> dict[str, str]:
    """Figure of a whole run → which of its tables is absent or empty, and what writes it."""
    found: dict[str, str] = {}
    for name, (needs, _) in FIGURES.items():
        gone = [table for table in needs if not _filled(run, table)]
        if gone:
            found[name] = "; ".join(_why(run, table) for table in gone)
    return found


def _why(run: Run, table: str) -> str:
    if run.table(table) is not None:
        return f"the {table} table is empty"
    return f"no {table}: `{(MADE_BY | ALSO)[table]}` would add it"


def figures_of(run: Run) -> Iterator[tuple[str, Draw]]:
    """Each figure that a run allows: of the whole, then of each role, then of each task."""
    for name, (needs, draw) in FIGURES.items():
        if all(_filled(run, table) for table in needs):
            yield name, partial(draw, run)
    for role in _names(run, "scores", "role"):
        yield figure_name("scores", role), partial(role_heatmap, run, role)
    for task in sorted(set(own_tasks(run).values())):
        yield figure_name("effects", task, "forest"), partial(effect_forest, run, task)
        yield figure_name("total-direct", task), partial(total_direct_repair, run, task)
    for task in _names(run, "pruning", "task"):
        yield figure_name("pruning", task), partial(pruning_curves, run, task)


def _names(run: Run, table: str, column: str) -> list[str]:
    rows = run.table(table)
    return [] if rows is None else sorted(set(rows[column]))


def _filled(run: Run, table: str) -> bool:
    rows = run.table(table)
    return rows is not None and not rows.empty
