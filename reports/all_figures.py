"""Every figure that a run's tables allow, in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from rolecall.reports.run import Run
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


def draw_all(run: Run, folder: Path) -> list[str]:
    """The names of the figures drawn into the folder: those whose tables the run has."""
    drawn = []
    for name, draw in figures_of(run):
        draw(save=folder / name)
        drawn.append(name)
    return drawn


def figures_of(run: Run) -> Iterator[tuple[str, Draw]]:
    """Each figure that a run allows: of the whole, then of each role, then of each task."""
    for name, (needs, draw) in FIGURES.items():
        if all(_filled(run, table) for table in needs):
            yield name, partial(draw, run)
    for role in _names(run, "scores", "role"):
        yield f"scores-{role}", partial(role_heatmap, run, role)
    for task in sorted(set(own_tasks(run).values())):
        yield f"effects-{task}-forest", partial(effect_forest, run, task)
        yield f"total-direct-{task}", partial(total_direct_repair, run, task)
    for task in _names(run, "pruning", "task"):
        yield f"pruning-{task}", partial(pruning_curves, run, task)


def _names(run: Run, table: str, column: str) -> list[str]:
    rows = run.table(table)
    return [] if rows is None else sorted(set(rows[column]))


def _filled(run: Run, table: str) -> bool:
    rows = run.table(table)
    return rows is not None and not rows.empty
