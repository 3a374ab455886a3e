"""Names beside points, left out where they would cover one another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation

Point = tuple[float, float]
Place = tuple[float, float, str, str]

BESIDE: tuple[Place, ...] = (
    (4, 0, "left", "center"),
    (-4, 0, "right", "center"),
    (0, 4, "center", "bottom"),
    (0, -4, "center", "top"),
)
AWAY: tuple[Place, ...] = tuple(
    (side * across, up, "left" if side > 0 else "right", "center")
    for across, up, side in product((12, 22, 32), (0, 9, -9, 18, -18, 27, -27), (1, -1))
)
"""Places further off, in points; a name there is joined to its point by a thin line."""


def label_points(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    names: Sequence[str],
    *,
    avoid: Sequence[Point] = (),
    size: float = 6.5,
) -> int:
    """How many of the names were written; earlier ones go first, none covers another or a point.

    Each is tried right, left, above and below its point, then further off with a line to it,
    within the frame. The limits of the axes stay as they are.

    Args:
        axes: Where the points are drawn already.
        x: Where the points are across.
        y: Where they are upwards.
        names: One a point.
        avoid: Further points that no name should cover.
        size: Of the text.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
    figure.draw_without_rendering()  # only now is it known how large the axes are
    points = list(zip(x, y, strict=True))
    dots = _dots(axes, [*points, *avoid])
    names_taken = np.empty((0, 4))
    for i, name in enumerate(names):
        taken = np.concatenate([np.delete(dots, i, axis=0), names_taken])
        box = _written(axes, name, points[i], taken, size)
        if box is not None:
            names_taken = np.concatenate([names_taken, [box]])
    return len(names_taken)


def _written(
    axes: Axes, name: str, point: Point, taken: np.ndarray, size: float
) -> np.ndarray | None:
    """The box of the name at the first place that is free, or None and nothing written."""
    x0, y0, x1, y1 = axes.get_window_extent().extents
    for place in (*BESIDE, *AWAY):
        text = _text(axes, name, point, place, size)
        box = np.asarray(text.get_window_extent().extents)
        inside = x0 <= box[0] and box[2] <= x1 and y0 <= box[1] and box[3] <= y1
        if inside and not _covers(box, taken):
            if place in AWAY:
                text.remove()
                _text(axes, name, point, place, size, lw=0.4, color="0.5", shrinkA=0, shrinkB=2)
            return box
        text.remove()
    return None


def _text(
    axes: Axes, name: str, point: Point, place: Place, size: float, **line: object
) -> Annotation:
    """The name beside the point, joined to it where a line's look is given."""
    across, up, ha, va = place
    arrow = {"arrowstyle": "-", "relpos": (0 if ha == "left" else 1, 0.5), **line} if line else None
    how = {"textcoords": "offset points", "ha": ha, "va": va, "fontsize": size}
    return axes.annotate(name, point, (across, up), arrowprops=arrow, **how)


def _covers(box: np.ndarray, taken: np.ndarray) -> bool:
    apart = (taken[:, 2:] <= box[:2]) | (taken[:, :2] >= box[2:])
    return bool((~apart.any(axis=1)).any())


def _dots(axes: Axes, points: Sequence[Point]) -> np.ndarray:
    """Boxes [x0 y0 x1 y1] round the points, in pixels."""
    at = axes.transData.transform(np.asarray(points, dtype=float).reshape(-1, 2))
    return np.concatenate([at - 2.5, at + 2.5], axis=1)
