"""How much the labels hang on each threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rolecall.reports.run import Run, rows_of
from rolecall.reports.saving import finished, new_axes, rolecall_style

DOWN, UP = "#56B4E9", "#D55E00"
COLUMNS = ("threshold", "value", "moved_to", "flips")


def label_sensitivity(
    data: Run | pd.DataFrame, *, columns: int = 1, save: Path | None = None
) -> Axes:
    """For each threshold, how many labels change when it is lowered and when it is raised.

    Each bar says the number of labels and the value that the threshold was moved to.

    Args:
        data: A run with sensitivity.csv, or rows with `threshold`, its `value`, what it is
            `moved_to`, and `flips`, the number of heads with another label then.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: There is no such table, or a column is missing.
    """
    rows = rows_of(data, "sensitivity")
    lacking = [name for name in COLUMNS if name not in rows.columns]
    if lacking:
        raise ValueError(f"the sensitivity table lacks the columns {', '.join(lacking)}")
    names = list(dict.fromkeys(rows["threshold"]))
    with rolecall_style():
        axes = new_axes(columns, 0.95 + 0.27 * max(len(names), 2))
        lowered = rows[rows["moved_to"] < rows["value"]]
        raised = rows[rows["moved_to"] > rows["value"]]
        for part, colour, shift in ((lowered, DOWN, -0.18), (raised, UP, 0.18)):
            if part.empty:
                continue
            at = [names.index(name) + shift for name in part["threshold"]]
            label = "lowered" if shift < 0 else "raised"
            drawn = axes.barh(at, part["flips"], height=0.32, color=colour, label=label)
            # Where no label changes, that is said too, and what the threshold was moved to.
            moves = zip(part["flips"], part["moved_to"], strict=True)
            said = [f"{flips:.0f} at {to:.3g}" for flips, to in moves]
            axes.bar_label(drawn, said, fontsize=5.5, padding=2)
        now = dict(zip(rows["threshold"], rows["value"], strict=True))
        labels = [f"{str(name).replace('_', ' ')} = {now[name]:.3g}" for name in names]
        axes.set_yticks(range(len(names)), labels=labels)
        axes.set(ylim=(len(names) - 0.4, -0.6), xlabel="labels that change")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(0, max(1.0, float(rows["flips"].max())) * 1.3)
        axes.tick_params(axis="y", length=0)
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.legend(loc="outside lower center", ncols=2)
        return finished(axes, rows, save)


def sensitivity_rows(run: Run) -> tuple[dict[str, Any], ...]:
    """One entry a threshold: its value, and (moved to, labels that change) for each move."""
    rows = run.table("sensitivity")
    if rows is None:
        return ()
    return tuple(
        {
            "threshold": str(name).replace("_", " "),
            "value": float(part["value"].iloc[0]),
            "moves": [(float(to), int(n)) for to, n in part[["moved_to", "flips"]].to_numpy()],
        }
        for name, part in rows.groupby("threshold", sort=False)
    )
