"""What removing a head does to the task of each role, against other tasks and unrelated text.

Works from the effects table. An effect is held against its task's scale: a share of the clean logit
difference, or nats for a loss, so that effects on different tasks can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from statsmodels.stats.multitest import multipletests

from rolecall.analyses.equivalence import equivalence_p
from rolecall.analyses.tiers import Thresholds

# Zero comes last: it also damages whatever reads the head's constant part (methods §2.1).
PRIMARY = ("mean", "resample", "zero")

HEAD = ["layer", "head"]
NUMBERS = (
    *("total", "total_low", "total_high", "direct", "self_repair", "ratio", "ratio_low"),
    *("scale", "others", "generic_damage"),
)
# The task whose effects are the generic damage of all others (`effects.py`, which needs torch).
DAMAGE = "natural_text"
LACKS_TASK = "no task is known for this role"


def primary(effects: pd.DataFrame) -> pd.DataFrame:
    """One row a task and head: of the kinds of replacement that were run, the first in `PRIMARY`.

    Adds `scale`, the number that stands for the whole task, and `usable`, false where the model
    does not do the task, so that losing it means nothing.
    """
    single = effects["layer"].notna() & effects["head"].notna()
    if "heads" in effects:  # sets of heads stand in the same table
        single &= ~effects["heads"].fillna("").str.contains("+", regex=False)
    rows = effects[single & effects["ablation"].isin(PRIMARY)].copy()
    rows["order"] = rows["ablation"].map({kind: n for n, kind in enumerate(PRIMARY)}).astype(int)
    rows = rows.sort_values(["task", *HEAD, "order"], kind="stable")
    rows = rows.drop_duplicates(["task", *HEAD]).drop(columns="order")
    clean = rows["clean"].astype(float)
    difference = rows["metric"] == "logit_difference"
    rows["scale"] = np.where(difference, clean.abs(), 1.0)
    rows["usable"] = ~difference | (clean > 0)
    if "interpretable" in rows:
        rows["usable"] &= rows["interpretable"].fillna(True).astype(bool)
    return rows


def own_task(
    heads: pd.DataFrame,
    effects: pd.DataFrame | None,
    tasks: Mapping[str, str],
    thresholds: Thresholds,
) -> pd.DataFrame:
    """For each row of `heads` (role, family, layer, head, pattern) what its role's task says.

    Columns: `task`, `ablation`, `metric`, `n_items`, the `NUMBERS`, `effect` (see `tiers.Effect`)
    and `why`, the reason where it is unknown. Rows keep their order.
    """
    found = heads[["role", "family", *HEAD, "pattern"]].reset_index(drop=True)
    found["task"] = found["role"].map(dict(tasks)).astype(object)
    if effects is None or effects.empty:
        return _nothing(found, "no effects were measured (rolecall ablate)")
    rows = primary(effects)
    wanted = ["task", *HEAD, "ablation", "metric", "n_items", "usable", "p_value", "p_max"]
    wanted += ["total", "total_low", "total_high", "direct", "self_repair", "generic_damage"]
    extra = [c for c in ("direct_low", "direct_high") if c in rows]
    found = found.merge(rows[[*wanted, "scale", *extra]], on=["task", *HEAD], how="left")
    found["others"] = _others(found, rows)
    found = found.merge(_most(rows, thresholds), on=HEAD, how="left")
    ratios = _ratios(found)
    found["ratio"], found["ratio_low"] = ratios["total"], ratios["total_low"]
    found["effect"] = _effect(found, thresholds)
    found["why"] = _why(found, tasks, set(rows["task"]))
    found.loc[found["why"].notna(), "effect"] = "unknown"
    return found


def _nothing(found: pd.DataFrame, why: str) -> pd.DataFrame:
    blank = {name: np.nan for name in (*NUMBERS, "most")}
    found = found.assign(**blank, most_task=None, ablation=None, metric=None, n_items=np.nan)
    return found.assign(effect="unknown", why=np.where(found["task"].isna(), LACKS_TASK, why))


def _others(found: pd.DataFrame, rows: pd.DataFrame) -> np.ndarray:
    """Mean absolute effect on the tasks of other families, each on its own scale."""
    family = found.dropna(subset=["task"]).groupby("task")["family"].agg(set).to_dict()
    share = rows[rows["usable"] & (rows["task"] != DAMAGE)].assign(
        share=lambda r: (r["total"] / r["scale"]).abs()
    )
    table = share.pivot(index=HEAD, columns="task", values="share")
    means = np.full(len(found), np.nan)
    for name, group in found.groupby("family"):
        other = [task for task in table if name not in family.get(task, set())]
        mean = table[other].mean(axis=1) if other else pd.Series(dtype=float)
        keys = pd.MultiIndex.from_frame(group[HEAD])
        means[group.index] = mean.reindex(keys).to_numpy(dtype=float) if other else np.nan
    return means


def _most(rows: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """Per head the task that it matters most to, on the tasks' scales, and the effect there."""
    sure = rows["usable"] & (rows["total_low"] > 0) & ~(rows["p_max"] >= thresholds.alpha)
    held = rows[sure & (rows["task"] != DAMAGE)]
    held = held.assign(share=held["total"] / held["scale"])
    first = held.sort_values([*HEAD, "share", "task"], ascending=[True, True, False, True])
    names = {"task": "most_task", "total": "most"}
    return first.drop_duplicates(HEAD)[[*HEAD, "task", "total"]].rename(columns=names)


def _ratios(found: pd.DataFrame) -> dict[str, np.ndarray]:
    """Own effect over the larger of the others' mean and the generic damage; NaN without either."""
    known = found[["others", "generic_damage"]].astype(float).clip(lower=0.0)
    against = known.max(axis=1).to_numpy()
    ratios = {}
    for column in ("total", "total_low"):
        share = (found[column] / found["scale"]).to_numpy(dtype=float)
        unmatched = np.where(share > 0, np.inf, np.nan)
        ratios[column] = np.divide(share, against, out=unmatched, where=against > 0)
        ratios[column][np.isnan(against)] = np.nan
    return ratios


def asked_for(found: pd.DataFrame) -> np.ndarray:
    """The p of effects that a pattern asked for, by Holm over all of these; NaN elsewhere.

    Where a head has the pattern of a role, its effect on that role's task is one question, put
    before any effect was seen. `p_max` is for effects that were searched for over all heads.
    """
    p = found["p_value"].to_numpy(dtype=float, na_value=np.nan)
    asked = found["pattern"].to_numpy(dtype=bool) & found["usable"].eq(True).to_numpy(dtype=bool)
    asked &= ~np.isnan(p)
    adjusted = np.full(len(found), np.nan)
    if asked.any():
        adjusted[asked] = multipletests(p[asked], method="holm")[1]
    return adjusted


def _effect(found: pd.DataFrame, thresholds: Thresholds) -> np.ndarray:
    total, low, high, scale, p_max = (
        found[name].to_numpy(dtype=float)
        for name in ("total", "total_low", "total_high", "scale", "p_max")
    )
    band = thresholds.negligible * scale
    # A missing p does not veto.
    sure = ~(p_max >= thresholds.alpha) | (asked_for(found) < thresholds.alpha)
    nothing = equivalence_p(total, low, high, band) < thresholds.alpha
    hidden = _undone(found, band)
    cases = [
        nothing & hidden,
        nothing,
        sure & (low > 0),
        sure & (high < 0),
        hidden,
    ]
    names = ["hidden", "nothing", "helps", "harms", "hidden"]
    return np.select(cases, names, default="unclear")


def _undone(found: pd.DataFrame, band: np.ndarray) -> np.ndarray:
    """Where later layers hide what the head writes: it is no trifle, would be seen, and is undone.

    The nearer end of the direct effect's interval must lie beyond the band of negligible effects,
    beyond the total effect's interval, and beyond half its width: an effect of that size would not
    have held zero. A direct effect without an interval of its own is taken as it is.
    """
    direct, low, high = (
        found[name].to_numpy(dtype=float) for name in ("direct", "total_low", "total_high")
    )
    near = np.abs(direct)
    if {"direct_low", "direct_high"} <= set(found):
        sides = found[["direct_low", "direct_high"]].astype(float).abs().min(axis=1)
        near = np.fmin(near, sides.to_numpy())
    left = np.where(direct > 0, high, -low)
    # Given only where the rest opposes the direct effect, whose interval excludes zero.
    opposed = found["self_repair"].notna().to_numpy()
    return opposed & (near > np.maximum.reduce([band, left, (high - low) / 2]))


def _why(found: pd.DataFrame, tasks: Mapping[str, str], run: set[str]) -> Sequence[str | None]:
    def reason(task: object, total: object, usable: object) -> str | None:
        if task is None or task != task:
            return LACKS_TASK
        if task not in run:
            return f"task {task} was not run"
        if total is None or total != total:
            return f"this head was not ablated on {task}"
        return None if usable else f"the model does not do {task}, so losing it means nothing"

    return [reason(*row) for row in found[["task", "total", "usable"]].itertuples(index=False)]
