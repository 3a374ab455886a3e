"""From tables to verdicts: each (head, role) held against the rules of `tiers.py`.

Works from score tables alone; effects, weights, conditioning and stability come in where they are
known, and what is unknown is said in the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd

from rolecall.analyses.hierarchy import SINK, level
from rolecall.analyses.own_task import HEAD, own_task
from rolecall.analyses.reasons import reason
from rolecall.analyses.tiers import (
    MECHANISM,
    PATTERN,
    SELECTIVE,
    Thresholds,
    holds,
    needed,
    pattern_holds,
    tier_of,
)


@dataclass(frozen=True)
class Context:
    """What is known beside the tables of scores, effects and weights.

    Attributes:
        tasks: Role → name of its task.
        no_task: Role → why it has none.
        checks: Per (role, layer, head): `conditioned`, the lower bound of the score where the
            other roles that the head holds point elsewhere, and `stability`. Either may be absent.
    """

    tasks: Mapping[str, str] = field(default_factory=dict)
    no_task: Mapping[str, str] = field(default_factory=dict)
    checks: pd.DataFrame | None = None


def label_heads(
    scores: pd.DataFrame,
    effects: pd.DataFrame | None = None,
    weights: pd.DataFrame | None = None,
    settings: Thresholds | None = None,
    context: Context | None = None,
) -> pd.DataFrame:
    """The verdicts: one row for each (layer, head, role) that has a tier, with its reasons.

    Sorted by role, layer, head. Beyond the columns of design §6 it has the numbers that the tier
    rests on.
    """
    judged = judge(scores, effects, weights, settings, context)
    return decided(judged, settings, context)


def judge(
    scores: pd.DataFrame,
    effects: pd.DataFrame | None = None,
    weights: pd.DataFrame | None = None,
    settings: Thresholds | None = None,
    context: Context | None = None,
) -> pd.DataFrame:
    """Every (head, role) of the scores table and what each rule makes of it; `tier` may be None."""
    settings = settings or Thresholds()
    context = context or Context()
    rows = scores.sort_values(["role", *HEAD], kind="stable").reset_index(drop=True)
    rows = _with_checks(rows, context.checks)
    columns = rule_columns(rows, settings)
    rows["pattern"] = pattern_holds(columns, settings)
    own = own_task(rows, effects, context.tasks, settings)
    carried = ["task", "ablation", "metric", "n_items", "total", "total_low", "total_high"]
    carried += ["direct", "self_repair", "ratio", "ratio_low", "others", "generic_damage"]
    carried += ["most_task", "most"]
    rows = rows.drop(columns=[c for c in carried if c in rows]).join(
        own[[*carried, "scale", "effect", "why"]]
    )
    rows["level"] = columns["level"]
    rows["needed"] = columns["needed"]
    rows["rest"] = columns["rest"]
    rows["selective"] = holds(SELECTIVE, columns, settings)
    rows["specific"] = (rows["ratio"] > settings.min_ratio) & (rows["ratio_low"] > 1.0)
    rows["consistent"], rows["weight"] = _mechanism(rows, weights)
    facts = ("pattern", "selective", "effect", "specific", "consistent")
    rows["tier"] = tier_of({name: rows[name].to_numpy() for name in facts})
    rows["failed"] = _failed(columns, settings)
    return rows


def has_pattern(scores: pd.DataFrame, settings: Thresholds | None = None) -> pd.Series:
    """For each row of a scores table, in its order, whether that head has that role's pattern."""
    keys = ["role", *HEAD]
    held = judge(scores, settings=settings).set_index(keys)["pattern"]
    values = held.reindex(pd.MultiIndex.from_frame(scores[keys])).to_numpy(dtype=bool)
    return pd.Series(values, index=scores.index)


def decided(
    judged: pd.DataFrame, settings: Thresholds | None = None, context: Context | None = None
) -> pd.DataFrame:
    """The rows that have a tier, each with its reasons in words."""
    rows = judged[judged["tier"].notna()].reset_index(drop=True)
    no_task, settings = (context or Context()).no_task, settings or Thresholds()
    records = cast("list[dict[str, Any]]", rows.to_dict("records"))
    said = [reason(row, settings, no_task.get(row["role"], "")) for row in records]
    return rows.assign(reasons=pd.Series(said, dtype=object))


def rule_columns(rows: pd.DataFrame, settings: Thresholds) -> dict[str, np.ndarray]:
    """The numbers that the rules look at, one a row."""
    pairs = list(zip(rows["role"], rows["family"], strict=True))
    known = {pair: (level(*pair), needed(*pair, settings)) for pair in set(pairs)}
    columns = {
        rule.column: rows[rule.column].to_numpy(dtype=float, na_value=np.nan)
        for rule in (*PATTERN, SELECTIVE)
        if rule.column in rows
    }
    columns["level"] = np.array([known[pair][0] for pair in pairs], dtype=int)
    columns["needed"] = np.array([known[pair][1] for pair in pairs], dtype=float)
    columns["rest"] = _rest(rows, columns["level"])
    return columns


def _rest(rows: pd.DataFrame, levels: np.ndarray) -> np.ndarray:
    """The least that a head rests on any other role's links; NaN where there is no other role."""
    other = rows[levels != SINK]
    least = other.groupby(HEAD)["sink"].min() if len(other) else pd.Series(dtype=float)
    keys = pd.MultiIndex.from_frame(rows[HEAD])
    return least.reindex(keys).to_numpy(dtype=float) if len(least) else np.full(len(rows), np.nan)


def _with_checks(rows: pd.DataFrame, checks: pd.DataFrame | None) -> pd.DataFrame:
    if checks is not None:
        rows = rows.merge(checks, on=["role", *HEAD], how="left")
    for name in ("conditioned", "stability"):
        if name not in rows:
            rows[name] = np.nan
    return rows


def _mechanism(rows: pd.DataFrame, weights: pd.DataFrame | None) -> tuple[np.ndarray, np.ndarray]:
    """Where the weights do not speak against the role, and the number that says so."""
    value = np.full(len(rows), np.nan)
    consistent = np.ones(len(rows), dtype=bool)
    if weights is None:
        return consistent, value
    table = weights.set_index(HEAD)
    for role, (column, bound) in MECHANISM.items():
        here = (rows["role"] == role).to_numpy()
        keys = pd.MultiIndex.from_frame(rows.loc[here, HEAD])
        value[here] = table[column].reindex(keys).to_numpy(dtype=float)
        consistent[here] = ~(value[here] <= bound)
    return consistent, value


def _failed(columns: Mapping[str, np.ndarray], settings: Thresholds) -> list[str]:
    """The names of the rules that each row fails, separated by blanks."""
    met = np.stack([holds(rule, columns, settings) for rule in PATTERN])
    names = np.array([rule.name for rule in PATTERN])
    return [" ".join(names[~column]) for column in met.T]
