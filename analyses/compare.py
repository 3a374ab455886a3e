"""Runs side by side: which heads keep their label, how ranks agree, where in depth roles live.

From tables alone. Heads are matched by layer and number, which means something for runs of one
model (checkpoints, seeds, data sets); between models only relative depth is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pandas as pd

HEAD = ["layer", "head"]
NO_LABEL = "no clean label"


def label_changes(labels: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a head with a label in any run: its label in each, and whether all agree.

    Columns: layer, head, one column a run, kept.

    Args:
        labels: Run → one row a head with layer, head and label.

    Raises:
        ValueError: The runs have other heads.
    """
    require_same_heads(labels)
    columns = [rows.set_index(HEAD)["label"].rename(name) for name, rows in labels.items()]
    wide = pd.concat(columns, axis=1).sort_index()
    wide = wide[(wide != NO_LABEL).any(axis=1)]
    return wide.assign(kept=wide.nunique(axis=1) == 1).reset_index()


def agreement(labels: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Per role and pair of runs: heads with that label in each, in both, and their Jaccard index.

    The role `any` counts the heads that have a label at all, whichever it is.
    """
    require_same_heads(labels)
    rows = []
    for one, other in combinations(labels, 2):
        first, second = _holders(labels[one]), _holders(labels[other])
        for role in ["any", *sorted({*first, *second} - {"any"})]:
            a, b = first.get(role, frozenset()), second.get(role, frozenset())
            both, either = len(a & b), len(a | b)
            share = both / either if either else None
            rows.append((role, one, other, len(a), len(b), both, share))
    columns = ["role", "run", "other", "heads", "other_heads", "both", "jaccard"]
    return pd.DataFrame(rows, columns=columns)


def rank_correlation(scores: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Per role and pair of runs: Spearman's correlation of all heads' scores, and how many heads.

    Columns: role, run, other, spearman (null with fewer than three heads, or all alike), n_heads.

    Args:
        scores: Run → its scores table.

    Raises:
        ValueError: The runs have other heads.
    """
    require_same_heads(scores)
    rows = []
    for one, other in combinations(scores, 2):
        joined = scores[one].merge(scores[other], on=["role", *HEAD], suffixes=("", "_other"))
        for role, part in joined.groupby("role"):
            pair = part[["score", "score_other"]].astype(float).dropna()
            varied = len(pair) > 2 and (pair.nunique() > 1).all()
            # Ranks by hand: pandas' own Spearman needs scipy only for this.
            found = pair.rank()["score"].corr(pair.rank()["score_other"]) if varied else None
            rows.append((role, one, other, found, len(pair)))
    return pd.DataFrame(rows, columns=["role", "run", "other", "spearman", "n_heads"])


def role_depths(labels: Mapping[str, pd.DataFrame], n_layers: Mapping[str, int]) -> pd.DataFrame:
    """Per run and role: how many heads, and their relative depth (0 first layer, 1 last).

    Columns: run, role, heads, share (of the run's heads), depth (mean), first, last.
    """
    parts = []
    for name, rows in labels.items():
        held = rows[rows["label"] != NO_LABEL]
        depth = held["layer"].astype(float) / max(n_layers[name] - 1, 1)
        grouped = depth.groupby(held["label"])
        part = grouped.agg(heads="size", depth="mean", first="min", last="max").reset_index()
        part = part.rename(columns={"label": "role"})
        parts.append(part.assign(run=name, share=part["heads"] / len(rows)))
    columns = ["run", "role", "heads", "share", "depth", "first", "last"]
    return pd.concat(parts, ignore_index=True)[columns]


def same_heads(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Whether all tables speak of the same layers and heads."""
    heads = [frozenset(map(tuple, rows[HEAD].to_numpy().tolist())) for rows in tables.values()]
    return len(set(heads)) <= 1


def require_same_heads(tables: Mapping[str, pd.DataFrame]) -> None:
    """Nothing, if all tables speak of the same heads.

    Raises:
        ValueError: They do not, so heads cannot be matched by number.
    """
    if not same_heads(tables):
        sizes = ", ".join(
            f"{name} {len(rows[HEAD].drop_duplicates())}" for name, rows in tables.items()
        )
        raise ValueError(
            f"heads are matched by layer and number, and these runs have other heads ({sizes}); "
            "compare them by relative depth"
        )


def _holders(rows: pd.DataFrame) -> dict[str, frozenset[tuple[int, int]]]:
    held = rows[rows["label"] != NO_LABEL]
    found = {"any": frozenset(map(tuple, held[HEAD].to_numpy().tolist()))}
    for role, part in held.groupby("label"):
        found[str(role)] = frozenset(map(tuple, part[HEAD].to_numpy().tolist()))
    return found
