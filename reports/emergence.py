"""Emergence: when in training each role appears."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.palette import role_colour, text_colour
from rolecall.reports.run import Run, rows_of, significant
from rolecall.reports.saving import finished, new_axes, rolecall_style
from rolecall.reports.ticks import label_places

STYLES = ("-", "--", "-.", ":")


def emergence(
    checkpoints: Mapping[int, Run | pd.DataFrame] | pd.DataFrame,
    *,
    columns: int = 1,
    save: Path | None = None,
) -> Axes:
    """A line for each role: the best head's score over the steps of training.

    A filled dot is a step where that head's score is significant for the role, a hollow one where
    it is not.

    Args:
        checkpoints: Training step → run, or rows of its scores table; or one table of scores with
            a column `step`.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: There is no checkpoint.
    """
    rows = best_by_step(checkpoints)
    if rows.empty:
        raise ValueError("there is no checkpoint to draw")
    with rolecall_style():
        axes = new_axes(columns, 3.0)
        ends: list[tuple[float, float, str]] = []
        for i, (role, part) in enumerate(rows.groupby("role")):
            colour = role_colour(str(role))
            x, y = part["step"].to_numpy(), part["score"].to_numpy()
            axes.plot(x, y, color=colour, ls=STYLES[i % 4], lw=1.1)
            sure = part["significant"].to_numpy()
            axes.scatter(x[sure], y[sure], s=12, color=colour, lw=0, zorder=3)
            axes.scatter(x[~sure], y[~sure], s=10, facecolor="white", edgecolor=colour, lw=0.7)
            ends.append((float(x[-1]), float(y[-1]), str(role)))
        axes.set(xlabel="training step", ylabel="best head's score", ylim=(-0.02, 1.05))
        axes.set_xscale("symlog", linthresh=max(1, _first(rows)))
        steps = sorted(set(rows["step"].astype(float)))
        # One step alone stands at the right, beside its names.
        axes.set_xlim(*((steps[0], steps[-1] * 1.05) if len(steps) > 1 else (-1, steps[0])))
        label_places(axes, steps, apart=0.2 / columns)
        _name_ends(axes, ends)
        return finished(axes, rows, save)


def best_by_step(checkpoints: Mapping[int, Run | pd.DataFrame] | pd.DataFrame) -> pd.DataFrame:
    """Step, role, and the layer, head, score and significance of the role's best head then."""
    if isinstance(checkpoints, pd.DataFrame):
        table = checkpoints
    else:
        parts = [rows_of(run, "scores").assign(step=step) for step, run in checkpoints.items()]
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if table.empty:
        return table
    table = table.assign(significant=significant(table), score=table["score"].astype(float))
    ranked = table.sort_values(["role", "step", "score"], ascending=[True, True, False])
    best = ranked.groupby(["role", "step"], sort=True).head(1)
    return best[["step", "role", "layer", "head", "score", "significant"]].reset_index(drop=True)


def _name_ends(axes: Axes, ends: list[tuple[float, float, str]]) -> None:
    """Nothing; writes each line's role right of the frame, moved apart and joined to its end."""
    ordered = sorted(ends, key=lambda end: (-end[1], end[2]))
    places = spread([y for _, y, _ in ordered], gap=min(0.055, 1.05 / len(ordered)))
    for (x, y, role), at in zip(ordered, places, strict=True):
        axes.annotate(
            role.replace("_", " "),
            (x, y),
            (1.06, (at + 0.02) / 1.07),
            textcoords="axes fraction",
            va="center",
            fontsize=6,
            color=text_colour(role),
            arrowprops={"arrowstyle": "-", "lw": 0.4, "color": "0.6", "relpos": (0, 0.5)},
        )


def spread(heights: Sequence[float], *, gap: float) -> list[float]:
    """Heights from high to low moved apart by at least `gap`, down first, and none below 0.

    >>> spread([0.5, 0.5, 0.1], gap=0.25)
    [0.5, 0.25, 0.0]
    """
    places: list[float] = []
    for height in heights:
        places.append(min([height, *(place - gap for place in places[-1:])]))
    floor = 0.0
    for i in reversed(range(len(places))):
        places[i] = max(places[i], floor)
        floor = places[i] + gap
    return places


def _first(rows: pd.DataFrame) -> float:
    """The first step past 0, from where the axis is logarithmic."""
    past = rows.loc[rows["step"] > 0, "step"]
    return float(past.min()) if len(past) else 1.0
