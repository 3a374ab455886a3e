"""Where in the network each role lives: how many heads of it every layer has."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.palette import role_colour
from rolecall.reports.run import NO_LABEL, Run, labels_of, shape_of
from rolecall.reports.saving import column_width, finished, new_axes, rolecall_style
from rolecall.reports.ticks import step


def depth_profile(data: Run | pd.DataFrame, *, columns: int = 1, save: Path | None = None) -> Axes:
    """A dot for each role and layer, as large as the number of heads with that role there.

    Roles are in the order of their mean depth, earliest first.

    Args:
        data: A run, or rows with layer, head, label, tier and roles.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.
    """
    heads = labels_of(data)
    shape = shape_of(data, heads)
    counts = role_layers(heads)
    order = counts.groupby("role")["layer"].mean().sort_values(kind="stable").index
    with rolecall_style():
        axes = new_axes(columns, 0.75 + 0.24 * max(len(order), 3))
        room = 72 * column_width(columns) * 0.68 / max(shape[0], 1)
        biggest = min(15.0, max(room, 5.0)) ** 2
        most = max(int(counts["heads"].max()), 1) if len(counts) else 1
        for y, role in enumerate(order):
            rows = counts[counts["role"] == role]
            axes.plot((-0.5, shape[0] - 0.5), (y, y), color="0.88", lw=0.6, zorder=0)
            size = (rows["heads"] / most * biggest).clip(lower=9.0)
            axes.scatter(rows["layer"], [y] * len(rows), s=size, color=role_colour(role), lw=0)
            if biggest**0.5 >= 9:
                _numbers(axes, rows, y, big=most)
        axes.set_yticks(range(len(order)), labels=[role.replace("_", " ") for role in order])
        axes.set(
            xlim=(-0.7, shape[0] - 0.3),
            ylim=(len(order) - 0.4, -0.6),
        )
        size = f" (largest dot: {most} heads)" if most > 1 else ""
        axes.set_xlabel(f"layer{size}")
        axes.set_xticks(range(0, shape[0], step(shape[0], 8 * columns)))
        axes.tick_params(axis="y", length=0)
        if not len(order):
            say_nothing(axes, "no head has a label")
        axes.set_title("heads of each role, by layer", loc="left")
        return finished(axes, counts, save)


def role_layers(heads: pd.DataFrame) -> pd.DataFrame:
    """Role, layer and the number of heads with that role in that layer."""
    labelled = heads[heads["label"] != NO_LABEL]
    long = labelled[["layer", "head", "roles"]].explode("roles").rename(columns={"roles": "role"})
    counts = long.groupby(["role", "layer"], as_index=False).size()
    return counts.rename(columns={"size": "heads"})


def say_nothing(axes: Axes, why: str) -> None:
    """Nothing; writes into empty axes why they are empty."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color="0.4")
    axes.set(xticks=[], yticks=[])


def _numbers(axes: Axes, rows: pd.DataFrame, y: int, *, big: int) -> None:
    for layer, number in zip(rows["layer"], rows["heads"], strict=True):
        if number > 1 and number / big > 0.3:
            place = {"ha": "center", "va": "center_baseline", "fontsize": 6, "color": "white"}
            axes.text(layer, y, str(number), **place)
