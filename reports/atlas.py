"""The atlas: one grid of all heads, each in its role's colour, as strong as its tier."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.legend_handler import HandlerPatch
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon, Rectangle

from rolecall.reports.heatmap import map_height
from rolecall.reports.palette import (
    PALE,
    TIER_STRENGTH,
    blended,
    ink_on,
    role_colour,
    role_letters,
)
from rolecall.reports.role_key import LINE
from rolecall.reports.run import NO_LABEL, Run, labels_of, records, shape_of, without_label
from rolecall.reports.saving import column_width, finished, new_axes, rolecall_style
from rolecall.reports.ticks import label_heads

LETTER_ROOM = 0.16
"""Inches: cells smaller than this, either way, have no room for two letters."""


def atlas(data: Run | pd.DataFrame, *, columns: int = 1, save: Path | None = None) -> Axes:
    """All heads, layers down and heads across, each in the colour of its role.

    Strong colour is tier A, fainter B, then C. A head without a label is pale, with a dot where
    some task needs it all the same; one that was not looked at is hatched. Where cells are large
    enough they carry two letters a role, so the figure reads in grey too. A second role of a head
    is the triangle in its corner.

    Args:
        data: A run, or rows with layer, head, label, tier and roles (as heads.csv has them).
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.
    """
    heads = labels_of(data)
    shape = shape_of(data, heads)
    letters = role_letters(role for roles in heads["roles"] for role in roles)
    with rolecall_style():
        legend_lines = -(-(len(letters) + 5) // (2 * columns))
        height = map_height(shape, columns) + LINE * legend_lines
        axes = new_axes(columns, height)
        axes.set(xlim=(0, shape[1]), ylim=(shape[0], 0))
        _cells(axes, heads)
        cell = (
            (column_width(columns) - 0.6) / shape[1],
            (map_height(shape, columns) - 0.6) / shape[0],
        )
        if min(cell) >= LETTER_ROOM:
            _letters(axes, heads, letters, size=min(7.0, 30 * min(cell)))
        label_heads(axes, shape)
        axes.spines[:].set_visible(False)
        _legend(axes, heads, letters, none=without_label(data), per_line=2 * columns)
        rows = heads.assign(roles=[";".join(roles) for roles in heads["roles"]])
        return finished(axes, rows, save)


def cell_colour(label: str, tier: str | None) -> str:
    """The colour of a head's cell: its role's, as strong as its tier; pale without a label."""
    if label == NO_LABEL:
        return PALE
    return blended(role_colour(label), TIER_STRENGTH.get(str(tier), 0.42))


def _cells(axes: Axes, heads: pd.DataFrame) -> None:
    axes.set_facecolor("#F7F7F7")
    axes.patch.set(hatch="////", edgecolor="0.8")  # shows only where no head covers it
    cells, colours, corners, corner_colours = [], [], [], []
    for row in records(heads):
        x, y = float(row["head"]), float(row["layer"])
        cells.append(Rectangle((x + 0.04, y + 0.04), 0.92, 0.92))
        colours.append(cell_colour(row["label"], row["tier"]))
        if len(row["roles"]) > 1:
            corners.append(
                Polygon([(x + 0.96, y + 0.5), (x + 0.96, y + 0.96), (x + 0.5, y + 0.96)])
            )
            corner_colours.append(role_colour(row["roles"][1]))
    needed = _helpers(heads)
    axes.scatter(needed["head"] + 0.5, needed["layer"] + 0.5, s=3, color="0.45", lw=0, zorder=4)
    white = [Rectangle((float(r["head"]), float(r["layer"])), 1, 1) for r in records(heads)]
    axes.add_collection(PatchCollection(white, facecolor="white", lw=0))
    axes.add_collection(PatchCollection(cells, facecolors=colours, lw=0))
    if corners:
        axes.add_collection(
            PatchCollection(corners, facecolors=corner_colours, edgecolor="white", lw=0.4)
        )


def _helpers(heads: pd.DataFrame) -> pd.DataFrame:
    """Heads without a label that some task needs all the same."""
    return heads[(heads["label"] == NO_LABEL) & (heads["tier"] == "D")]


def _letters(axes: Axes, heads: pd.DataFrame, letters: dict[str, str], *, size: float) -> None:
    for row in records(heads[heads["label"] != NO_LABEL]):
        ink = ink_on(cell_colour(row["label"], row["tier"]))
        place = {"ha": "center", "va": "center", "fontsize": size, "color": ink}
        axes.text(row["head"] + 0.5, row["layer"] + 0.5, letters[row["label"]], **place)


def _legend(
    axes: Axes, heads: pd.DataFrame, letters: dict[str, str], *, none: str, per_line: int
) -> None:
    held = [role for roles in heads["roles"] for role in roles]
    handles: list[Artist] = [
        Patch(
            facecolor=role_colour(role),
            label=f"{letters[role]}  {role.replace('_', ' ')} ({held.count(role)})",
        )
        for role in sorted(set(held), key=lambda name: (-held.count(name), name))
    ]
    labelled = heads[heads["label"] != NO_LABEL]
    for tier in sorted(set(labelled["tier"].dropna())):
        grey = blended("#333333", TIER_STRENGTH.get(str(tier), 0.42))
        handles.append(Patch(facecolor=grey, label=f"tier {tier}" if len(tier) == 1 else tier))
    without = len(heads) - len(labelled)
    handles.append(Patch(facecolor=PALE, label=f"{none} ({without} of {len(heads)})"))
    helpers = len(_helpers(heads))
    if helpers:
        dot = {"color": "0.45", "marker": "o", "ms": 2.5, "ls": ""}
        handles.append(Line2D([], [], **dot, label=f"effect without the pattern ({helpers})"))
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=per_line,
        handler_map={Patch: HandlerPatch()},
        columnspacing=1.0,
        handletextpad=0.4,
        fontsize=6.5,
    )
