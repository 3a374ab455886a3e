"""Names beside points, left out where they would cover one another."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

Point = tuple[float, float]
PLACES = ((4, 0, "left", "center"), (-4, 0, "right", "center"), (0, 4, "center", "bottom"))
PLACES += ((0, -4, "center", "top"),)


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

    Each is tried right, left, above and below its point, within the frame. The limits of the axes
    stay as they are.

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
    frame = axes.get_window_extent()
    points = list(zip(x, y, strict=True))
    taken = [_dot(axes, point) for point in (*points, *avoid)]
    written = 0
    for i, name in enumerate(names):
        for dx, dy, across, down in PLACES:
            text = axes.annotate(
                name,
                points[i],
                (dx, dy),
                textcoords="offset points",
                ha=across,
                va=down,
                fontsize=size,
            )
            box = text.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0
            others = taken[:i] + taken[i + 1 :]
            if inside and box.y1 <= frame.y1 and not any(box.overlaps(other) for other in others):
                taken.append(box)
                written += 1
                break
            text.remove()
    return written


def _dot(axes: Axes, point: Point) -> Bbox:
    at = axes.transData.transform(point)
    return Bbox.from_bounds(at[0] - 2.5, at[1] - 2.5, 5, 5)
