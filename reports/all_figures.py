"""Every figure that a run's tables allow, in one go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.axes import Axes

from rolecall.reports.atlas import atlas
from rolecall.reports.composition_figure import composition_graph
from rolecall.reports.depth import depth_profile
from rolecall.reports.own_task import own_tasks
from rolecall.reports.pruning_figure import pruning_curves
from rolecall.reports.repair import total_direct_repair
from rolecall.reports.run import Run
from rolecall.reports.score_effect import score_against_effect
from rolecall.reports.sensitivity_figure import label_sensitivity
from rolecall.reports.similarity import similarity_clusters

Draw = Callable[[Run, Path], Axes]

FIGURES: dict[str, tuple[tuple[str, ...], Draw]] = {
    "atlas": (("scores",), lambda run, to: atlas(run, save=to)),
    "depth": (("scores",), lambda run, to: depth_profile(run, save=to)),
    "similarity": (("scores",), lambda run, to: similarity_clusters(run, save=to)),
    "score-against-effect": (
        ("scores", "effects"),
        lambda run, to: score_against_effect(run, save=to),
    ),
    "composition": (("composition",), lambda run, to: composition_graph(run, save=to)),
    "pruning": (("pruning",), lambda run, to: pruning_curves(run, save=to)),
    "sensitivity": (("sensitivity",), lambda run, to: label_sensitivity(run, save=to)),
}
"""Name → the tables it needs, and how it is drawn."""


def draw_all(run: Run, folder: Path) -> list[str]:
    """The names of the figures drawn into the folder: those whose tables the run has.

    The layer × head maps of roles and tasks are drawn by `scan` and `ablate` themselves.
    """
    drawn = []
    for name, (needs, draw) in FIGURES.items():
        if all(_filled(run, table) for table in needs):
            draw(run, folder / name)
            drawn.append(name)
    if _filled(run, "effects"):
        for task in sorted(set(own_tasks(run).values())):
            name = f"total-direct-{task}"
            total_direct_repair(run, task, save=folder / name)
            drawn.append(name)
    return drawn


def _filled(run: Run, table: str) -> bool:
    rows = run.table(table)
    return rows is not None and not rows.empty
