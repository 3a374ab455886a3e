"""Which heads are alike: clusters by the profile of their scores over all roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import pdist

from rolecall.reports.heatmap import OUTLINE
from rolecall.reports.palette import text_colour
from rolecall.reports.role_key import key_below, letters_of
from rolecall.reports.run import NO_LABEL, Run, head_name, labels_of, records, rows_of
from rolecall.reports.saving import column_width, finished, new_axes, rolecall_style
from rolecall.reports.ticks import step

ALIKE = 0.2
"""Heads nearer than this (root mean square difference of excess over chance) are one cluster."""

LIKENESS = "likeness (0: the two furthest apart here)"


def similarity_clusters(
    data: Run | pd.DataFrame, *, top: int = 32, columns: int = 1, save: Path | None = None
) -> Axes:
    """How alike the strongest heads are, in the order of a hierarchical clustering.

    A head's profile is its score beyond chance for every role; the darker a cell, the nearer two
    profiles are. Clusters are framed. Names of heads wear their role's colour and letters.

    Args:
        data: A run, or rows of the scores table.
        top: How many heads, those that stand out most for some role.
        columns: Width in columns of a paper, 1 or 2.
        save: A path without ending: .svg, .pdf, .png and .csv are written there.
    """
    profiles = head_profiles(rows_of(data, "scores")).head(top)
    ordered, clusters = clustered(profiles)
    near = pd.DataFrame(1 - _distances(ordered), index=ordered.index, columns=ordered.index)
    with rolecall_style():
        side = min(column_width(columns) - 0.45, 5.0)
        axes = new_axes(columns, side + 0.85)
        every = step(len(near), int(side * 11))
        roles = _roles(data, near.index)
        letters = letters_of(roles.values())
        sns.heatmap(
            near.rename(index={name: f"{name} {letters[role]}" for name, role in roles.items()}),
            ax=axes,
            cmap="cividis_r",
            vmin=0,
            vmax=1,
            square=True,
            xticklabels=False,
            yticklabels=every,
            cbar_kws={"label": LIKENESS, "location": "bottom", "shrink": 0.7, "aspect": 30},
        )
        axes.set(xlabel="the same heads", ylabel="")
        axes.tick_params(length=0, labelsize=min(6.5, 0.85 * 72 * side / len(near) * every))
        axes.tick_params(axis="y", rotation=0)
        _frames(axes, clusters)
        _colour_labels(axes, roles)
        key_below(axes, [], letters, columns=columns)
        return finished(axes, near.rename_axis("head").reset_index(), save)


def head_profiles(scores: pd.DataFrame) -> pd.DataFrame:
    """Heads by roles: score beyond chance, heads that stand out most for some role first."""
    excess = scores.assign(
        name=[head_name(layer, head) for layer, head in scores[["layer", "head"]].to_numpy()],
        excess=(scores["score"].astype(float) - scores["chance"].astype(float).fillna(0.0)),
    )
    wide = excess.pivot(index="name", columns="role", values="excess").fillna(0.0)
    order = wide.max(axis=1).sort_values(ascending=False, kind="stable").index
    return wide.loc[order]


def clustered(profiles: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """The profiles in the order of a clustering by average distance, and each one's cluster."""
    if len(profiles) < 2:
        return profiles, np.ones(len(profiles), dtype=int)
    tree = linkage(pdist(profiles.to_numpy()) / profiles.shape[1] ** 0.5, method="average")
    order = leaves_list(tree)
    return profiles.iloc[order], fcluster(tree, ALIKE / 2, criterion="distance")[order]


def _distances(profiles: pd.DataFrame) -> np.ndarray:
    """Root mean square difference over roles, scaled so that 1 is as far as any two here."""
    values = profiles.to_numpy()
    square = ((values[:, None, :] - values[None, :, :]) ** 2).mean(axis=2) ** 0.5
    return square / (square.max() or 1.0)


def _frames(axes: Axes, clusters: np.ndarray) -> None:
    starts = [0, *(np.flatnonzero(np.diff(clusters)) + 1), len(clusters)]
    for begin, end in pairwise(starts):
        if end - begin > 1:
            x, y = (begin, end, end, begin, begin), (begin, begin, end, end, begin)
            seen = [withStroke(linewidth=2.2, foreground="white")]
            axes.plot(x, y, color=OUTLINE, lw=0.9, clip_on=False, path_effects=seen)


def _roles(data: Run | pd.DataFrame, names: Iterable[str]) -> dict[str, str]:
    """Head → its label, for those of the heads that have one."""
    if not isinstance(data, Run):
        return {}
    found = {head_name(r["layer"], r["head"]): r["label"] for r in records(labels_of(data))}
    return {n: found[n] for n in names if found.get(n, NO_LABEL) != NO_LABEL}


def _colour_labels(axes: Axes, roles: Mapping[str, str]) -> None:
    for text in axes.get_yticklabels():
        role = roles.get(text.get_text().split(" ")[0])
        text.set_color("0.4" if role is None else text_colour(role))
        text.set_fontweight("normal" if role is None else "bold")
