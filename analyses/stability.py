"""Whether a label stays when the examples are drawn again.

Each resample draws templates, then examples within them, and holds the same rules against what it
finds. A lower bound moves with its estimate: the width of an interval is taken from the scores
table, so that a head whose bound just clears a threshold keeps its label in half of the resamples.
Consistency is not drawn again: it is a count over the templates as they are, and drawn with
replacement the one template in twelve at which a head may fail would often count as two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Real

from rolecall.analyses.accounting import best_account
from rolecall.analyses.evidence import Evidence
from rolecall.analyses.judge import rule_columns
from rolecall.analyses.labels import ranked
from rolecall.analyses.own_task import HEAD
from rolecall.analyses.resampling import cluster_weights, resampled_means
from rolecall.analyses.score_table import Reduced, Settings, reduce_evidence
from rolecall.analyses.tiers import Thresholds, pattern_holds, tier_of

Draws = Bool[np.ndarray, "resample head"]
AT_ONCE = 200
"""Resamples whose labels are worked out together."""


@dataclass(frozen=True)
class Stability:
    """How firmly labels stand.

    Attributes:
        rows: Per (role, layer, head) whose pattern holds: `stability`, the share of resamples in
            which the head keeps this label (its leading role) or this pattern (its other roles).
        jaccard: Per role, and `all`: mean overlap of the labelled heads with those of a resample.
    """

    rows: pd.DataFrame
    jaccard: Mapping[str, float]


def pattern_draws(
    evidence: Evidence, judged: pd.DataFrame, settings: Settings, thresholds: Thresholds
) -> Draws:
    """Where the pattern of one role holds, in each resample; `judged` has its rows alone."""
    keys = pd.MultiIndex.from_tuples(evidence.heads, names=HEAD)
    rows = judged.set_index(HEAD).reindex(keys).reset_index()
    names = rows["baseline_name"].iloc[0].split(" / ")
    baseline = best_account(evidence.rows(), names, seed=settings.seed)
    once = Settings(n_resamples=settings.n_resamples, n_permutations=0, seed=settings.seed)
    reduced = reduce_evidence(evidence, evidence.facts["score_kind"], baseline, once)
    weights = cluster_weights(
        reduced.templates, reduced.pairs, n_resamples=settings.n_resamples, seed=settings.seed
    )
    columns = {name: values[None] for name, values in rule_columns(rows, thresholds).items()}
    columns["rest"] = rows["rest"].to_numpy(dtype=float)[None]
    columns["stability"] = np.full_like(columns["rest"], np.nan)
    return pattern_holds(columns | drawn_columns(reduced, columns, rows, weights), thresholds)


def drawn_columns(
    reduced: Reduced,
    columns: Mapping[str, np.ndarray],
    rows: pd.DataFrame,
    weights: Real[np.ndarray, "resample example"],
) -> dict[str, Float[np.ndarray, "resample head"]]:
    """The numbers that the rules look at, as each resample finds them."""
    score, margin = rows["score"].to_numpy(), rows["margin"].to_numpy()
    drawn_score = resampled_means(reduced.score, weights)
    drawn_margin = drawn_score - resampled_means(reduced.baseline, weights)
    return {
        "ci_low": columns["ci_low"] + drawn_score - score,
        "margin_low": columns["margin_low"] + drawn_margin - margin,
        "off_baseline": resampled_means(reduced.off, weights),
        "sink": resampled_means(reduced.sink, weights),
    }


def stability(
    judged: pd.DataFrame, evidence: Mapping[str, Evidence], settings: Settings, at: Thresholds
) -> Stability:
    """How often each label and pattern of `judged` comes back."""
    roles = [role for role in judged["role"].unique() if role in evidence]
    if not roles:
        return Stability(judged.head(0)[["role", *HEAD, "stability"]], {})
    heads = list(
        judged[HEAD].drop_duplicates().sort_values(HEAD).itertuples(index=False, name=None)
    )
    place = {head: n for n, head in enumerate(heads)}
    draws = np.zeros((len(roles), settings.n_resamples, len(heads)), dtype=bool)
    for n, role in enumerate(roles):
        own = judged[judged["role"] == role]
        where = [place[head] for head in evidence[role].heads]
        draws[n][:, where] = pattern_draws(evidence[role], own, settings, at)
    order = _order(judged, roles, place)
    now = _grid(judged.assign(value=judged["pattern"]), roles, place, False).astype(bool)
    found = _summary(roles, heads, draws, order, labels(now[:, None], order)[0])
    # A pattern that does not hold has no stability: it must not bar looser thresholds either.
    held = pd.MultiIndex.from_frame(judged.loc[judged["pattern"], ["role", *HEAD]])
    kept = pd.MultiIndex.from_frame(found.rows[["role", *HEAD]]).isin(held)
    types = judged[["role", *HEAD]].dtypes.to_dict()
    return Stability(found.rows[kept].astype(types), found.jaccard)


def labels(
    holds: Bool[np.ndarray, "role resample head"], order: Int[np.ndarray, "role head"]
) -> Int[np.ndarray, "resample head"]:
    """Number of each head's leading role among those that hold; −1 for none."""
    parts = []
    for start in range(0, holds.shape[1], AT_ONCE):
        part = np.where(holds[:, start : start + AT_ONCE], order[:, None], len(order))
        parts.append(np.where(part.min(axis=0) < len(order), part.argmin(axis=0), -1))
    return np.concatenate(parts)


def _order(
    judged: pd.DataFrame, roles: Sequence[str], place: Mapping[tuple[int, int], int]
) -> Int[np.ndarray, "role head"]:
    """Each head's roles in the order in which they would lead, did their pattern hold."""
    facts = {n: judged[n].to_numpy() for n in ("selective", "effect", "specific", "consistent")}
    pattern = np.ones(len(judged), dtype=bool)
    supposed = ranked(judged.assign(tier=tier_of({"pattern": pattern, **facts})))
    supposed = supposed[supposed["role"].isin(roles)]
    return _grid(
        supposed.assign(value=supposed.groupby(HEAD, sort=False).cumcount()),
        roles,
        place,
        len(roles),
    )


def _grid(
    rows: pd.DataFrame, roles: Sequence[str], place: Mapping[tuple[int, int], int], fill: int
) -> np.ndarray:
    grid = np.full((len(roles), len(place)), fill, dtype=int)
    number = {role: n for n, role in enumerate(roles)}
    rows = rows[rows["role"].isin(roles)]
    for role, layer, head, value in rows[["role", *HEAD, "value"]].itertuples(index=False):
        grid[number[role], place[layer, head]] = int(value)
    return grid


def _summary(
    roles: Sequence[str],
    heads: Sequence[tuple[int, int]],
    draws: Bool[np.ndarray, "role resample head"],
    order: Int[np.ndarray, "role head"],
    now: Int[np.ndarray, " head"],
) -> Stability:
    drawn = labels(draws, order)
    rows = []
    for n, role in enumerate(roles):
        share, keeps = draws[n].mean(axis=0), (drawn == n).mean(axis=0)
        for column, head in enumerate(heads):
            value = keeps[column] if now[column] == n else share[column]
            rows.append((role, *head, float(value)))
    jaccard = {role: _overlap(drawn == n, now == n) for n, role in enumerate(roles)}
    jaccard["all"] = _overlap(*(_pairs(labels, len(roles)) for labels in (drawn, now)))
    frame = pd.DataFrame(rows, columns=["role", *HEAD, "stability"])
    known = {role: value for role, value in jaccard.items() if value is not None}
    return Stability(frame, known)


def _pairs(labels: np.ndarray, n_roles: int) -> np.ndarray:
    return np.concatenate([labels == n for n in range(n_roles)], axis=-1)


def _overlap(drawn: np.ndarray, now: np.ndarray) -> float | None:
    """Mean Jaccard overlap with the resamples' sets; None where no head has the label."""
    if not now.any():
        return None
    both, either = (drawn & now).sum(axis=1), (drawn | now).sum(axis=1)
    return float((both / either).mean())
