"""Who feeds whom: the strongest head-to-head edges, by layer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from rolecall.reports.depth import say_nothing
from rolecall.reports.palette import ink_on, role_colour
from rolecall.reports.role_key import key_below, letters_of
from rolecall.reports.run import NO_LABEL, Run, head_name, labels_of, records, rows_of
from rolecall.reports.saving import finished, new_axes, rolecall_style

KINDS = {"q": ("#0072B2", "-"), "k": ("#D55E00", "--"), "v": ("#009E73", ":")}
COLUMNS = ("kind", "from_layer", "from_head", "layer", "head", "excess")


def composition_graph(
    data: Run | pd.DataFrame, *, top: int = 16, columns: int = 1, save: Path | None = None
) -> Axes:
    """The strongest edges as arrows from an earlier head to a later one; layers go up.

    The line's style is the input that is fed (query, key or value), its width the composition
    score beyond the random baseline. Heads with a label wear its colour and letters.

    Args:
        data: A run with a table `composition`, or rows with kind (q, k or v), from_layer,
            from_head, layer, head (the one that is fed) and excess over the random baseline.
        top: How many edges.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: There is no such table, or a column is missing.
    """
    rows = rows_of(data, "composition")
    lacking = [name for name in COLUMNS if name not in rows.columns]
    if lacking:
        raise ValueError(f"the composition table lacks the columns {', '.join(lacking)}")
    rows = rows.sort_values("excess", ascending=False, kind="stable").head(top)
    with rolecall_style():
        places = _places(rows)
        layers = sorted({layer for layer, _ in places})
        axes = new_axes(columns, 0.7 + min(0.38 * max(len(layers), 2), 6.2))
        if not len(rows):
            say_nothing(axes, "no edge stands out")
            return finished(axes, rows, save)
        _edges(axes, rows, places)
        labels = {at: role for at, role in _labels(data).items() if at in places}
        _nodes(axes, places, labels, columns=columns)
        axes.set(xlim=(-0.06, 1.06), ylim=(-0.6, len(layers) - 0.4))
        axes.set_yticks(range(len(layers)), labels=[str(layer) for layer in layers])
        axes.set(xticks=[], ylabel="layer")
        axes.spines["bottom"].set_visible(False)
        axes.set_title("wider: further beyond the random baseline", loc="left", fontsize=7)
        handles = [
            Line2D([], [], color=colour, ls=style, label=f"{kind.upper()} input")
            for kind, (colour, style) in KINDS.items()
            if kind in set(rows["kind"])
        ]
        key_below(axes, handles, letters_of(labels.values()), columns=columns)
        return finished(axes, rows, save)


def _places(rows: pd.DataFrame) -> dict[tuple[int, int], tuple[float, int]]:
    """Head → where it is drawn: evenly across its layer, in the order of heads."""
    fed = rows[["layer", "head"]]
    feeding = rows[["from_layer", "from_head"]].set_axis(fed.columns, axis=1)
    ends = pd.concat([feeding, fed]).drop_duplicates()
    places: dict[tuple[int, int], tuple[float, int]] = {}
    for y, layer in enumerate(sorted(set(ends["layer"].tolist()))):
        names = sorted(ends.loc[ends["layer"] == layer, "head"].tolist())
        for i, head in enumerate(names):
            # Layers with few heads are shifted, so that arrows pass beside heads, not over them.
            shift = 0.04 * (y % 2 * 2 - 1) if len(names) < 6 else 0.0
            places[layer, head] = ((i + 0.5) / len(names) + shift, y)
    return places


def _edges(axes: Axes, rows: pd.DataFrame, places: dict) -> None:
    most = max(float(rows["excess"].max()), 1e-9)
    for i, row in enumerate(records(rows)):
        colour, style = KINDS.get(row["kind"], ("0.5", "-"))
        arrow = FancyArrowPatch(
            places[row["from_layer"], row["from_head"]],
            places[row["layer"], row["head"]],
            arrowstyle="-|>,head_width=2,head_length=3",
            connectionstyle=f"arc3,rad={0.08 * (-1) ** i}",
            shrinkA=8,
            shrinkB=8,
            lw=0.5 + 1.6 * max(row["excess"], 0.0) / most,
            ls=style,
            color=colour,
            alpha=0.8,
        )
        axes.add_patch(arrow)


def _nodes(axes: Axes, places: dict, labels: dict[tuple[int, int], str], *, columns: int) -> None:
    letters = letters_of(labels.values())
    fullest = max(Counter(layer for layer, _ in places).values())
    gap = " " if fullest <= 5 * columns else "\n"  # where many stand side by side
    for (layer, head), (x, y) in places.items():
        label = labels.get((layer, head), NO_LABEL)
        colour = "#FFFFFF" if label == NO_LABEL else role_colour(label)
        box = {"boxstyle": "round,pad=0.25", "fc": colour, "ec": "0.5", "lw": 0.5}
        place = {"ha": "center", "va": "center", "fontsize": 6, "color": ink_on(colour)}
        name = f"{head_name(layer, head)}{gap}{letters.get(label, '')}".strip()
        axes.text(x, y, name, bbox=box, **place)


def _labels(data: Run | pd.DataFrame) -> dict[tuple[int, int], str]:
    if not isinstance(data, Run) or not {"heads", "scores"} & set(data.tables):
        return {}
    return {(r["layer"], r["head"]): r["label"] for r in records(labels_of(data))}
