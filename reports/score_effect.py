"""Pattern against effect: does the model depend on the heads that look the part?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.compare_figure import MARKS
from rolecall.reports.depth import say_nothing
from rolecall.reports.effect_figures import UNITS
from rolecall.reports.own_task import own_effects
from rolecall.reports.palette import role_colour
from rolecall.reports.point_labels import label_points
from rolecall.reports.run import Run, head_name, records, rows_of, significant
from rolecall.reports.saving import finished, new_axes, rolecall_style
from rolecall.reports.ticks import score_label

NAMED = 8
"""How many heads a column has room to name for their effects, and as many for their patterns."""


def score_against_effect(
    data: Run | pd.DataFrame, *, columns: int = 1, save: Path | None = None
) -> Axes:
    """A dot for each role and head: its score across, the effect on the role's own task up.

    In colour where the role is significant for the head, grey elsewhere; hollow where the model
    does not do the task, so that its effects mean nothing. The largest effects of either sign are
    named, and the strongest significant patterns; a grey dot with its role, as a head has a dot for
    each. Up and to the right is what a role's head should be; high on the left are helpers without
    the pattern, low on the right patterns that the task does not need. Effects are in nats for a
    loss, in logits for a logit difference.

    Args:
        data: A run, or rows as `scores_with_effects` gives them.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.

    Raises:
        ValueError: The run has no scores, or no effects.
    """
    rows = data if isinstance(data, pd.DataFrame) else scores_with_effects(data)
    with rolecall_style():
        axes = new_axes(columns, 2.9)
        axes.axhline(0, color="0.6", lw=0.6, zorder=0)
        axes.set_xlabel(score_label(rows["score_kind"]))
        axes.set_ylabel(f"effect on the role's own task{_units(rows)}")
        if rows.empty:
            say_nothing(axes, "no role has both a score and effects on its own task")
            return finished(axes, rows, save)
        weak = rows[~rows["significant"] & rows["usable"]]
        strong = rows[rows["significant"]]
        faint = {"s": 5, "color": "0.78", "lw": 0, "label": "pattern not significant"}
        axes.scatter(weak["score"], weak["total"], rasterized=len(weak) > 2000, **faint)
        for i, (role, part) in enumerate(strong.groupby("role")):
            done, colour = bool(part["usable"].all()), role_colour(str(role))
            fill = {"s": 16, "facecolor": colour, "edgecolor": "white", "lw": 0.3}
            ring = {"s": 13, "facecolor": "white", "edgecolor": colour, "lw": 0.9}
            name = str(role).replace("_", " ") + ("" if done else " (task not done)")
            look = {**(fill if done else ring), "marker": MARKS[i % len(MARKS)]}
            axes.scatter(part["score"], part["total"], label=name, **look)
        axes.margins(0.08, 0.1)
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.legend(loc="outside lower center", ncols=2 * columns, columnspacing=1.0)
        top = leading(rows, NAMED * columns)
        others = rows.drop(top.index)
        label_points(
            axes,
            top["score"].tolist(),
            top["total"].tolist(),
            [_name(row) for row in records(top)],
            avoid=list(zip(others["score"], others["total"], strict=True)),
        )
        return finished(axes, rows, save)


def leading(rows: pd.DataFrame, n: int) -> pd.DataFrame:
    """Rows worth a name: the largest effects of `n` heads, `n` significant patterns, more effects.

    Of either sign, and each head's largest first, so that one head with many roles does not take
    every name. An effect leads where its interval excludes zero, on a task that the model does.
    """
    sure = ~((rows["total_low"].astype(float) <= 0) & (rows["total_high"].astype(float) >= 0))
    size = rows.loc[rows["usable"] & sure, "total"].abs()
    size = size.sort_values(ascending=False, kind="stable")
    first = rows.loc[size.index].drop_duplicates(["layer", "head"]).index[:n]
    seen = rows[rows["significant"]].sort_values("score", ascending=False, kind="stable").index[:n]
    return rows.loc[list(dict.fromkeys([*first, *seen, *size.index[:n]]))]


def _name(row: dict[str, Any]) -> str:
    """The head; with the role where no colour tells it."""
    name = head_name(row["layer"], row["head"])
    return name if row["significant"] else f"{name} {row['role'].replace('_', ' ')}"


def _units(rows: pd.DataFrame) -> str:
    """The units of the effects shown, on a line of their own; nothing where none is known."""
    units = sorted({UNITS[metric] for metric in rows["metric"] if metric in UNITS})
    return f"\n({' or '.join(units)})" if units else ""


def scores_with_effects(run: Run) -> pd.DataFrame:
    """Role, layer, head, score, whether significant, and the effects on the role's own task.

    `usable` is false where the model does not do the task.

    Raises:
        ValueError: The run has no scores, or no effects.
    """
    rows_of(run, "effects")
    scores = rows_of(run, "scores")
    scores = scores.assign(significant=significant(scores))
    left = scores[["role", "layer", "head", "score_kind", "score", "margin", "significant"]]
    effects = own_effects(run)
    wanted = [
        "role",
        "layer",
        "head",
        "task",
        "ablation",
        "metric",
        "total",
        "total_low",
        "total_high",
    ]
    right = effects.reindex(columns=[*wanted, "direct", "generic_damage", "usable"])
    joined = left.merge(right, on=["role", "layer", "head"], how="inner")
    joined = joined.astype({"score": float, "total": float, "usable": bool})
    return joined.dropna(subset=["score", "total"]).reset_index(drop=True)
