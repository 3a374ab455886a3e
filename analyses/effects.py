"""From per-item effects to the effects table: means, intervals, p-values, self-repair.

Intervals resample templates, then items within them. p-values flip signs: under the null an item's
effect is as likely positive as negative; whole templates flip where there are enough of them
(`TEMPLATES`), else items. `p_max` compares with the largest |t| over all heads and tasks of one
kind of replacement, `q_value` is Benjamini-Hochberg's over the same. What is below the resolution
of the arithmetic counts as zero.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import binomtest, false_discovery_control, ttest_1samp

from rolecall.analyses.item_store import read_items
from rolecall.analyses.resampling import cluster_weights, resampled_means, sign_flips

RESAMPLES = 2000
FLIPS = 4999
TEMPLATES = 8
LEAST_DAMAGE = 0.01
"""Nats of generic damage that every head is taken to do when its effect is divided by its size.

Its size: a head whose absence makes unrelated text easier by a lot is no specialist either.
"""

RESOLUTION = {"float32": 2e-5, "float64": 1e-9, "bfloat16": 2e-2, "float16": 5e-3}

DAMAGE = "natural_text"
"""The task whose effects are the generic damage of every other."""


@dataclass(frozen=True)
class Measured:
    """One task under one kind of replacement.

    Attributes:
        facts: What the file says of itself.
        rows: One row per unit, the table's columns that need no other task.
        peak: For each permutation the largest |t| over units.
        t: The observed |t| of each unit.
    """

    facts: dict[str, Any]
    rows: pd.DataFrame
    peak: Float[np.ndarray, " flip"]
    t: Float[np.ndarray, " unit"]


def effects_table(paths: Sequence[Path], *, seed: int) -> pd.DataFrame:
    """The effects table (design §6, and further columns behind) of these per-item files."""
    measured = [measure(*read_items(path), seed=seed) for path in sorted(paths)]
    parts = []
    for kind in sorted({m.facts["kind"] for m in measured}):
        same = [m for m in measured if m.facts["kind"] == kind]
        peak = np.max([m.peak for m in same], axis=0)
        for part in same:
            reached = (peak[:, None] >= part.t[None] - 1e-9).sum(axis=0)
            part.rows["p_max"] = (1 + reached) / (1 + len(peak))
        rows = pd.concat([m.rows for m in same], ignore_index=True)
        rows["q_value"] = false_discovery_control(rows["p_value"].to_numpy(float))
        parts.append(beside_damage(rows))
    return pd.concat(parts, ignore_index=True)


def measure(items: pd.DataFrame, facts: dict[str, Any], *, seed: int) -> Measured:
    """The statistics of one per-item file."""
    # Each file has its own draws, whatever else stands in the table.
    own = zlib.crc32(f"{seed} {facts['task']} {facts['kind']}".encode())
    units = items.drop_duplicates("heads").sort_values(["layer", "head", "kv_group", "heads"])
    order = list(units["heads"])
    wide = {
        name: items.pivot(index="item", columns="heads", values=name)[order].to_numpy(float)
        for name in ("total", "direct", "kl")
    }
    once = items[items["heads"] == order[0]].sort_values("item")
    templates = list(once["template"])
    weights = cluster_weights(templates, n_resamples=RESAMPLES, seed=own)
    limit = RESOLUTION.get(facts["dtype"], 1e-5)
    t, peak, p_value = flip_test(_settled(wide["total"], limit), templates, seed=own)
    rows = units[["layer", "head", "kv_group"]].reset_index(drop=True)
    rows.insert(0, "task", facts["task"])
    rows["ablation"], rows["metric"] = facts["kind"], facts["metric"]
    rows["clean"] = once["clean"].mean()
    rows["total"] = wide["total"].mean(axis=0)
    rows["total_low"], rows["total_high"] = _interval(wide["total"], weights)
    direct, low, high = _direct(wide["direct"], weights)
    rows["direct"] = direct
    rows["indirect"] = rows["total"] - direct
    rows["self_repair"] = self_repair(direct, rows["indirect"].to_numpy(), low=low, high=high)
    rows["p_value"] = p_value
    rows["n_items"] = len(once)
    rows["heads"] = order
    rows["direct_low"], rows["direct_high"] = low, high
    rows["direct_exact"] = pd.array([facts["direct_exact"]] * len(rows), dtype="boolean")
    rows["kl"] = wide["kl"].mean(axis=0)
    for name, value in ability(once, facts).items():
        rows[name] = value
    rows["replaced_by"] = facts["replaced_by"]
    return Measured(facts, rows, peak, t)


def interval_and_p(
    values: Float[np.ndarray, "item unit"], templates: Sequence[str], *, seed: int, dtype: str
) -> pd.DataFrame:
    """Per unit: total, total_low, total_high, p_value and p_max (over these units)."""
    weights = cluster_weights(templates, n_resamples=RESAMPLES, seed=seed)
    limit = RESOLUTION.get(dtype.removeprefix("torch."), 1e-5)
    t, peak, p_value = flip_test(_settled(values, limit), templates, seed=seed)
    low, high = _interval(values, weights)
    reached = (peak[:, None] >= t[None] - 1e-9).sum(axis=0)
    return pd.DataFrame(
        {
            "total": values.mean(axis=0),
            "total_low": low,
            "total_high": high,
            "p_value": p_value,
            "p_max": (1 + reached) / (1 + len(peak)),
        }
    )


def ability(once: pd.DataFrame, facts: dict[str, Any]) -> dict[str, Any]:
    """Whether the model can do the task at all, and by what it was judged.

    A logit difference: the share of items with the answer above the foil is over one half
    (binomial, one-sided 5 %). A loss: it is below the control (t test, one-sided 5 %), which is the
    loss of the same targets predicted from another item of the batch, and for an item that has no
    like in its batch the loss of guessing evenly.
    """
    clean = once["clean"].to_numpy(float)
    if facts["metric"] == "logit_difference":
        right = int((clean > 0).sum())
        p = binomtest(right, len(clean), 0.5, alternative="greater").pvalue
        return {"clean_accuracy": right / len(clean), "control": None, "interpretable": p < 0.05}
    control = once["control"].fillna(float(np.log(facts["d_vocab"]))).to_numpy(float)
    gain = control - clean
    able = bool(gain.mean() > 0 and len(gain) > 1 and _surely_positive(gain))
    return {"clean_accuracy": None, "control": float(control.mean()), "interpretable": able}


def _surely_positive(values: np.ndarray) -> bool:
    if np.ptp(values) == 0:
        return True
    return float(ttest_1samp(values, 0.0, alternative="greater").pvalue) < 0.05  # type: ignore[attr-defined]


def flip_test(
    values: Float[np.ndarray, "item unit"], templates: Sequence[str], *, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observed |t|, the largest |t| of each sign flip, and each unit's two-sided p-value."""
    names, code = np.unique(np.asarray(templates), return_inverse=True)
    blocks = values
    if len(names) >= TEMPLATES:
        blocks = np.zeros((len(names), values.shape[1]))
        np.add.at(blocks, code, values)
    squares = (blocks**2).sum(axis=0)
    observed = _t(blocks.sum(axis=0), squares, len(blocks))
    peak, reached = [], np.zeros(len(observed))
    for signs in sign_flips(len(blocks), n=FLIPS, seed=seed):
        flipped = _t(signs @ blocks, squares, len(blocks))
        peak.append(flipped.max(axis=1))
        # Where all flips agree with what was seen, rounding must not decide.
        reached += (flipped >= observed * (1 - 1e-9) - 1e-12).sum(axis=0)
    return observed, np.concatenate(peak), (1 + reached) / (1 + FLIPS)


def _t(total: np.ndarray, squares: np.ndarray, n: int) -> np.ndarray:
    """|t| of sums whose squares do not change with the signs; 0 for a unit without effect."""
    spread = np.maximum(squares - total**2 / n, 1e-12 * squares)
    # A unit that moves all items alike has no spread; the bound keeps it finite and comparable.
    return np.divide(np.abs(total), np.sqrt(spread), out=np.zeros_like(total), where=spread > 0)


def self_repair(
    direct: np.ndarray, indirect: np.ndarray, *, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The share of the direct effect that the rest undoes; NaN unless the two oppose each other.

    NaN too where the interval of the direct effect holds zero.
    """
    sure = (low > 0) | (high < 0)
    opposed = direct * indirect < 0
    share = np.divide(-indirect, direct, out=np.full_like(direct, np.nan), where=direct != 0)
    return np.where(sure & opposed, share, np.nan)


def _direct(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    known = ~np.isnan(values).any(axis=0)
    mean, low, high = (np.full(values.shape[1], np.nan) for _ in range(3))
    if known.any():
        mean[known] = values[:, known].mean(axis=0)
        low[known], high[known] = _interval(values[:, known], weights)
    return mean, low, high


def _interval(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 %; NaN with a single item, which says nothing of others."""
    if len(values) < 2:
        nothing = np.full(values.shape[1], np.nan)
        return nothing, nothing
    means = resampled_means(values, weights)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def _settled(values: np.ndarray, limit: float) -> np.ndarray:
    return np.where(np.abs(values) < limit, 0.0, values)


def beside_damage(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the generic damage of the same heads, its interval, and the effect's ratio."""
    damage = rows[rows["task"] == DAMAGE].drop_duplicates("heads").set_index("heads")
    names = {"generic_damage": "total", "damage_low": "total_low", "damage_high": "total_high"}
    for name, column in names.items():
        rows[name] = rows["heads"].map(damage[column]) if len(damage) else np.nan
    rows["per_damage"] = rows["total"] / rows["generic_damage"].abs().clip(lower=LEAST_DAMAGE)
    return rows
