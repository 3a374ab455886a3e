"""From a role's evidence to its rows of the scores table; no model is needed.

Design §5: the mean over an example's links, then over examples; intervals over templates, then
examples within them; never over tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.stats import false_discovery_control

from rolecall.analyses.accounting import Baseline, best_account
from rolecall.analyses.evidence import Block, Evidence, LinkRow
from rolecall.analyses.resampling import choices, cluster_weights, resampled_means
from rolecall.probes.base import Probe

# Below this share of attention outside the sink, a sink-adjusted score is noise (methods: the floor
# that Vig & Belinkov 2019 set at 90 % on the first token).
SINK_FLOOR = 0.1

PerExample = Float[np.ndarray, "example head"]


@dataclass(frozen=True)
class Settings:
    """How many resamples and permutations, and from which seed."""

    n_resamples: int = 1000
    n_permutations: int = 999
    seed: int = 0


@dataclass(frozen=True)
class Reduced:
    """A role's evidence, one number per example and head; NaN where an example has no such link.

    Attributes:
        templates: Each example's template.
        pairs: Each example's number, shared by an original and its twin.
        score: Mean mass or hit over the links.
        off: The same over links where the best simpler account points elsewhere.
        baseline: That account's score, the same for every head.
        contrast: Mass on the target minus the mean over rivals.
        sink: Mass on the first position and special tokens.
        mass: Mean mass, whatever the role's kind of score.
        permuted: The mean mass on the target where there are rivals, then for each permutation
            that on whichever span was called the target.
    """

    templates: tuple[str, ...]
    pairs: tuple[int, ...]
    score: PerExample
    off: PerExample
    baseline: Float[np.ndarray, "example one"]
    contrast: PerExample
    sink: PerExample
    mass: PerExample
    permuted: Float[np.ndarray, "observed_then_permutation head"]


@dataclass(frozen=True)
class RoleScores:
    """A role's rows, and what the maximum over all roles needs of it.

    Attributes:
        rows: One a head, the columns of the scores table except `p_max` and `q_value`.
        z: Each head's standardised target mass among its permutations.
        highest: Per permutation, the highest standardised value of any head.
    """

    rows: pd.DataFrame
    z: Float[np.ndarray, " head"]
    highest: Float[np.ndarray, " permutation"]


def score_role(
    evidence: Evidence, probe: Probe, *, group_size: int, settings: Settings
) -> RoleScores:
    """One role's rows of the scores table; `group_size` query heads share a KV group."""
    rows = evidence.rows()
    baseline = best_account(rows, probe.accounts, seed=settings.seed)
    reduced = reduce_evidence(evidence, probe.score_kind, baseline, settings)
    table = _table(reduced, rows, baseline, settings)
    heads = np.array(evidence.heads)
    z, highest, p_value = _permutation_test(reduced)
    table.insert(0, "kv_group", heads[:, 1] // group_size)
    table.insert(0, "head", heads[:, 1])
    table.insert(0, "layer", heads[:, 0])
    table.insert(0, "family", probe.family)
    table.insert(0, "role", probe.name)
    return RoleScores(table.assign(score_kind=probe.score_kind, p_value=p_value), z, highest)


def join(roles: Mapping[str, RoleScores]) -> pd.DataFrame:
    """The scores table of all roles, with `p_max` and `q_value` over layers × heads × roles."""
    if not roles:
        raise ValueError("no role has an example that this model can be scored on")
    ceiling = np.max([role.highest for role in roles.values()], axis=0)
    parts = [
        role.rows.assign(p_max=np.where(np.isnan(role.z), np.nan, _tail(ceiling[:, None], role.z)))
        for role in roles.values()
    ]
    table = pd.concat(parts, ignore_index=True)
    known = table["p_value"].notna()
    table["q_value"] = np.nan
    if known.any():
        adjusted = false_discovery_control(table.loc[known, "p_value"].to_numpy(dtype=float))
        table.loc[known, "q_value"] = adjusted
    return table


def reduce_evidence(
    evidence: Evidence, score_kind: str, baseline: Baseline, settings: Settings
) -> Reduced:
    """A role's evidence, link by link reduced to examples, originals and twins alike."""
    parts: list[tuple[np.ndarray, list[str], dict[str, np.ndarray]]] = []
    permuted: np.ndarray | float = 0.0
    at = 0
    for block in evidence.blocks():
        span = slice(at, at + len(block.rows))
        parts.append(_reduce_block(block, score_kind, baseline, span))
        permuted = permuted + _permuted_sum(block, settings)
        at += len(block.rows)
    order = np.argsort(np.concatenate([numbers for numbers, _, _ in parts]), kind="stable")
    versions = np.concatenate([numbers for numbers, _, _ in parts])[order]
    templates = [t for _, names, _ in parts for t in names]
    joined = {k: np.concatenate([p[k] for _, _, p in parts])[order] for k in parts[0][2]}
    return Reduced(
        templates=tuple(templates[i] for i in order),
        pairs=tuple(int(version) // 2 for version in versions),
        permuted=np.asarray(permuted) / len(order),
        **joined,
    )


def _reduce_block(
    block: Block, kind: str, baseline: Baseline, span: slice
) -> tuple[Int[np.ndarray, " example"], list[str], dict[str, np.ndarray]]:
    numbers, example = np.unique(block.version(), return_inverse=True)
    every = np.ones(len(example), dtype=bool)
    value = block.mass if kind == "mass" else block.hit
    count = block.has_rival.sum(axis=1)
    rivals = block.rivals.sum(axis=2) / np.maximum(count, 1)[:, None]
    contrast = block.mass - rivals
    means = {
        "score": _mean(value, example, every),
        "off": _mean(value, example, ~baseline.right[span]),
        "baseline": _mean(baseline.value[span][:, None], example, every),
        "contrast": _mean(contrast, example, count > 0),
        "sink": _mean(block.sink, example, every),
        "mass": _mean(block.mass, example, every),
    }
    template = {row.version: row.template for row in block.rows}
    return numbers, [template[n] for n in numbers], means


def _mean(
    values: Float[np.ndarray, "link column"],
    example: Int[np.ndarray, " link"],
    use: np.ndarray,
) -> Float[np.ndarray, "example column"]:
    member = np.zeros((example.max() + 1, len(example)))
    member[example[use], np.flatnonzero(use)] = 1.0
    count = member.sum(axis=1, keepdims=True)
    total = member @ values.astype(np.float64)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _permuted_sum(block: Block, settings: Settings) -> Float[np.ndarray, "p head"]:
    """Sum over the block's examples of the mean mass: as it is, then for each permutation."""
    count = block.has_rival.sum(axis=1)
    use = count > 0
    if not use.any():
        return np.zeros((1 + settings.n_permutations, block.mass.shape[1]))
    drawn = choices(
        block.pair()[use], count[use], n_permutations=settings.n_permutations, seed=settings.seed
    )
    drawn = np.concatenate([np.zeros_like(drawn[:1]), drawn])
    _, code, size = np.unique(block.version()[use], return_inverse=True, return_counts=True)
    weight = (1.0 / size[code]).astype(np.float32)
    total = ((drawn == 0) * weight).astype(np.float32) @ block.mass[use]
    for k in range(block.rivals.shape[2]):
        total += ((drawn == k + 1) * weight).astype(np.float32) @ block.rivals[use][:, :, k]
    return total.astype(np.float64)


def _permutation_test(
    reduced: Reduced,
) -> tuple[Float[np.ndarray, " head"], Float[np.ndarray, " permutation"], np.ndarray]:
    observed, null = reduced.permuted[0], reduced.permuted[1:]
    mean, spread = null.mean(axis=0), null.std(axis=0)
    tested = spread > 1e-9
    if not tested.any():
        nothing = np.full(len(mean), np.nan)
        return nothing, np.full(len(null), -np.inf), nothing
    scale = np.where(tested, spread, 1.0)
    z = np.where(tested, (observed - mean) / scale, 0.0)
    standard = np.where(tested, (null - mean) / scale, 0.0)
    return z, standard.max(axis=1), _tail(standard, z)


def _tail(null: Float[np.ndarray, "permutation column"], seen: np.ndarray) -> np.ndarray:
    return (1 + (null >= seen - 1e-9).sum(axis=0)) / (1 + len(null))


def _table(
    reduced: Reduced, rows: tuple[LinkRow, ...], baseline: Baseline, settings: Settings
) -> pd.DataFrame:
    n_templates = len(set(reduced.templates))
    score = np.nanmean(reduced.score, axis=0)
    margin = reduced.score - reduced.baseline
    table = pd.DataFrame({"score": score})
    weights = cluster_weights(
        reduced.templates, reduced.pairs, n_resamples=settings.n_resamples, seed=settings.seed
    )

    def quantile(values: PerExample, q: float) -> np.ndarray:
        if n_templates < 2:
            return np.full(values.shape[1], np.nan)
        return np.nanquantile(resampled_means(values, weights), q, axis=0)

    sink = np.nanmean(reduced.sink, axis=0)
    return table.assign(
        ci_low=quantile(reduced.score, 0.025),
        ci_high=quantile(reduced.score, 0.975),
        chance=_even(rows),
        baseline=float(reduced.baseline.mean()),
        baseline_name=baseline.name,
        margin=margin.mean(axis=0),
        margin_low=quantile(margin, 0.025),
        specificity=_mean_known(reduced.contrast),
        specificity_low=quantile(reduced.contrast, 0.025)
        if not np.isnan(reduced.contrast).all()
        else np.nan,
        consistency=_consistency(margin, reduced.baseline, reduced.templates),
        off_baseline=_mean_known(reduced.off),
        sink=sink,
        sink_adjusted=_sink_adjusted(np.nanmean(reduced.mass, axis=0), sink, rows),
        n_links=len(rows),
        n_examples=len(reduced.templates),
        n_templates=n_templates,
    )


def _even(rows: tuple[LinkRow, ...]) -> float:
    frame = pd.DataFrame({"version": [r.version for r in rows], "chance": [r.chance for r in rows]})
    return float(frame.groupby("version")["chance"].mean().mean())


def _mean_known(values: PerExample) -> np.ndarray:
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0)
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def _consistency(
    margin: PerExample, baseline: Float[np.ndarray, "example one"], templates: tuple[str, ...]
) -> np.ndarray:
    """Share of templates with a positive margin, of those where the simpler account leaves room."""
    room = pd.Series(baseline[:, 0]).groupby(list(templates)).mean() < 1 - 1e-9
    means = pd.DataFrame(margin).groupby(list(templates)).mean()[room]
    return (means > 0).mean(axis=0).to_numpy() if room.any() else np.full(margin.shape[1], np.nan)


def _sink_adjusted(mass: np.ndarray, sink: np.ndarray, rows: tuple[LinkRow, ...]) -> np.ndarray:
    """Mass outside the sink; null where the target is the sink, or hardly anything is left."""
    if any(0 in row.target for row in rows):
        return np.full(len(mass), np.nan)
    rest = 1.0 - sink
    return np.divide(mass, rest, out=np.full(len(mass), np.nan), where=rest >= SINK_FLOOR)
