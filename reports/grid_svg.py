"""Layer × head grids as small SVG: one path for all cells of one look, at any size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rolecall.reports.ticks import step

Cell = tuple[int, int]


@dataclass(frozen=True)
class Grid:
    """Where cells are.

    Attributes:
        shape: Layers and heads.
        cell: Width and height of a cell in the drawing's own units.
        left, top: Room for the layers' and the heads' numbers.
    """

    shape: Cell
    cell: tuple[float, float]
    left: float = 26.0
    top: float = 14.0

    @classmethod
    def fitting(cls, shape: Cell, room: Cell, *, low: float, high: float) -> Grid:
        """A grid for this room (width, height), whose cells are from `low` to `high` wide.

        Cells are at most 0.72 as high as wide, but never lower than `low`; what does not fit into
        the room with such cells is larger than it.
        """
        across = min(max(room[0] / max(shape[1], 1), low), high)
        down = min(room[1] / max(shape[0], 1), across * 0.72)
        return cls(shape, (round(across, 1), round(max(down, low), 1)))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the whole drawing."""
        layers, heads = self.shape
        return self.left + heads * self.cell[0] + 2, self.top + layers * self.cell[1] + 2

    def path(self, cells: Iterable[Cell], *, gap: float = 1.0) -> str:
        """The rectangles of these cells as one path."""
        width, height = self.cell[0] - gap, self.cell[1] - gap
        side = f"h{width:.6g}v{height:.6g}h-{width:.6g}z"
        return "".join(
            f"M{self.left + head * self.cell[0] + gap / 2:.6g}"
            f" {self.top + layer * self.cell[1] + gap / 2:.6g}{side}"
            for layer, head in cells
        )

    def numbers(self) -> str:
        """Numbers of layers and heads, thinned where they would touch."""
        layers, heads = self.shape
        down = step(layers, max(int(layers * self.cell[1] / 12), 1))
        across = step(heads, max(int(heads * self.cell[0] / 20), 1))
        rows = (
            f'<text x="{self.left - 4:.6g}" y="{self.top + (i + 0.5) * self.cell[1] + 3:.6g}"'
            f' text-anchor="end">{i}</text>'
            for i in range(0, layers, down)
        )
        columns = (
            f'<text x="{self.left + (i + 0.5) * self.cell[0]:.6g}" y="{self.top - 4:.6g}"'
            f' text-anchor="middle">{i}</text>'
            for i in range(0, heads, across)
        )
        return f'<g class="ticks" aria-hidden="true">{"".join(rows)}{"".join(columns)}</g>'

    def svg(self, body: str, *, label: str, name: str) -> str:
        """The drawing; `name` and the cells' places are there for the page's script."""
        width, height = self.size
        place = f"{self.left:.6g} {self.top:.6g} {self.cell[0]:.6g} {self.cell[1]:.6g}"
        return (
            f'<svg class="grid" data-grid="{name}" data-place="{place}" role="img"'
            f' aria-label="{label}" viewBox="0 0 {width:.6g} {height:.6g}" width="{width:.6g}"'
            f' xmlns="http://www.w3.org/2000/svg">{body}{self.numbers()}</svg>'
        )


def shaded(grid: Grid, values: Mapping[Cell, float], *, colour: str, levels: int = 8) -> str:
    """Cells in one colour, the stronger the higher the value (0 to 1), in so many steps."""
    by_level: dict[int, list[Cell]] = {}
    for cell, value in values.items():
        by_level.setdefault(min(round(max(value, 0.0) * levels), levels), []).append(cell)
    paths = [f'<path class="none" d="{grid.path(values)}"/>']
    paths += [
        f'<path fill="{colour}" fill-opacity="{level / levels:.3g}" d="{grid.path(cells)}"/>'
        for level, cells in sorted(by_level.items())
        if level
    ]
    return "".join(paths)
