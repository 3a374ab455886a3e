"""A head's attention on one text as a figure for print: the matrix, tokens on its sides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.saving import column_width, finished, new_axes, rolecall_style
from rolecall.reports.ticks import label_tokens


def attention_figure(
    pattern: np.ndarray | Sequence[Sequence[float]],
    tokens: Sequence[str],
    *,
    title: str = "",
    columns: int = 1,
    save: Path | None = None,
) -> Axes:
    """Attention [query, key] as a map, queries down and keys across; many tokens are thinned.

    Raises:
        ValueError: There are not as many tokens as rows and columns.
    """
    grid = np.asarray(pattern, dtype=float)
    if grid.shape != (len(tokens), len(tokens)):
        raise ValueError(
            f"{len(tokens)} tokens need a pattern of {len(tokens)} × {len(tokens)}, "
            f"not {' × '.join(map(str, grid.shape))}"
        )
    with rolecall_style():
        axes = new_axes(columns, column_width(columns) * 0.95)
        drawn = axes.pcolormesh(
            grid, cmap="cividis", vmin=0.0, vmax=1.0, rasterized=len(tokens) > 60
        )
        axes.set(xlabel="key", ylabel="query", title=title)
        axes.invert_yaxis()
        axes.set_aspect("equal")
        label_tokens(axes, tokens, most=28 * columns)
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.colorbar(drawn, ax=axes, label="attention", shrink=0.75)
        query, key = (at.tolist() for at in np.nonzero(grid >= 0.005))
        rows = pd.DataFrame({"query": query, "key": key, "attention": grid[query, key]}).assign(
            query_token=[tokens[i] for i in query], key_token=[tokens[i] for i in key]
        )
        return finished(axes, rows, save)
