"""Pattern against effect: does the model depend on the heads that look the part?"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from rolecall.reports.compare_figure import MARKS
from rolecall.reports.depth import say_nothing
from rolecall.reports.own_task import own_effects
from rolecall.reports.palette import role_colour
from rolecall.reports.point_labels import label_points
from rolecall.reports.run import Run, head_name, rows_of, significant
from rolecall.reports.saving import finished, new_axes, rolecall_style

NAMED, HELPERS = 8, 3


def score_against_effect(data: Run, *, columns: int = 1, save: Path | None = None) -> Axes:
    """A dot for each role and head: its score across, the effect on the role's own task up.

    In colour where the role is significant for the head, grey elsewhere; hollow where the model
    does not do the task, so that its effects mean nothing. The largest are named. Up and to the
    right is what a role's head should be; high on the left are helpers without the pattern, low on
    the right patterns that the task does not need. Effects are in nats for a loss, in logits for a
    logit difference.

    Raises:
        ValueError: The run has no scores, or no effects.
    """
    rows_of(data, "effects")
    rows = scores_with_effects(data)
    with rolecall_style():
        axes = new_axes(columns, 2.9)
        axes.axhline(0, color="0.6", lw=0.6, zorder=0)
        axes.set(xlabel="score", ylabel="effect on the role's own task")
        if rows.empty:
            say_nothing(axes, "no role has both a score and effects on its own task")
            return finished(axes, rows, save)
        weak = rows[~rows["significant"] & rows["usable"]]
        strong = rows[rows["significant"]]
        faint = {"s": 5, "color": "0.78", "lw": 0, "label": "not significant"}
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
        leading = ((strong, NAMED * columns), (weak, HELPERS * columns))
        top = pd.concat([part.nlargest(n, "total") for part, n in leading])
        names = [head_name(layer, head) for layer, head in top[["layer", "head"]].to_numpy()]
        others = strong.drop(top.index, errors="ignore")
        rest = list(zip(others["score"], others["total"], strict=True))
        label_points(axes, top["score"].tolist(), top["total"].tolist(), names, avoid=rest)
        return finished(axes, rows, save)


def scores_with_effects(run: Run) -> pd.DataFrame:
    """Role, layer, head, score, whether significant, and the effects on the role's own task.

    `usable` is false where the model does not do the task.
    """
    scores = rows_of(run, "scores")
    scores = scores.assign(significant=significant(scores))
    left = scores[["role", "layer", "head", "score", "margin", "significant"]]
    effects = own_effects(run)
    wanted = ["role", "layer", "head", "task", "ablation", "total", "total_low", "total_high"]
    right = effects.reindex(columns=[*wanted, "direct", "generic_damage", "usable"])
    joined = left.merge(right, on=["role", "layer", "head"], how="inner")
    joined = joined.astype({"score": float, "total": float, "usable": bool})
    return joined.dropna(subset=["score", "total"]).reset_index(drop=True)
