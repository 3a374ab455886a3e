"""Intervals by resampling templates then examples, and chance by permuting targets among rivals.

The unit is the template and the example, never the token: tokens of a sentence share one attention
map (`methods` literature: cluster bootstrap; p = (1 + #≥) / (1 + B)).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int, UInt16

Weights = UInt16[np.ndarray, "resample example"]

AT_ONCE = 2**20
"""Numbers of a resampling that are held at the same time, however many examples there are."""


def cluster_weights(
    templates: Sequence[str], pairs: Sequence[int] | None = None, *, n_resamples: int, seed: int
) -> Weights:
    """How often each resample draws each example: templates first, then examples within them.

    Examples with the same number in `pairs` (an original and its twin) are drawn together. With
    fewer than two templates there is nothing to resample over, and no interval should be given.
    """
    _, first, unit = np.unique(
        np.arange(len(templates)) if pairs is None else pairs,
        return_index=True,
        return_inverse=True,
    )
    return _unit_weights(np.asarray(templates)[first], n_resamples=n_resamples, seed=seed)[:, unit]


def _unit_weights(templates: np.ndarray, *, n_resamples: int, seed: int) -> Weights:
    names, code = np.unique(templates, return_inverse=True)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=n_resamples)
    weights = np.zeros((n_resamples, len(code)), dtype=np.uint16)
    for template in range(len(names)):
        members = np.flatnonzero(code == template)
        times = drawn[:, template] * len(members)
        weights[:, members] = rng.multinomial(times, np.full(len(members), 1 / len(members)))
    return weights


def resampled_means(
    values: Float[np.ndarray, "example column"], weights: Weights
) -> Float[np.ndarray, "resample column"]:
    """Each resample's mean of each column; NaN cells are left out, and all-NaN means are NaN."""
    known = ~np.isnan(values)
    filled, one = np.where(known, values, 0.0), known.astype(float)
    means = []
    for part in at_once(weights):
        total, count = part @ filled, part @ one
        means.append(np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0))
    return np.concatenate(means)


def at_once(weights: Weights) -> Iterator[Float[np.ndarray, "some example"]]:
    """The resamples in float64, some at a time."""
    step = max(1, AT_ONCE // max(1, weights.shape[1]))
    for start in range(0, len(weights), step):
        yield weights[start : start + step].astype(float)


def choices(
    pair: Int[np.ndarray, " link"],
    n_rivals: Int[np.ndarray, " link"],
    *,
    n_permutations: int,
    seed: int,
) -> Int[np.ndarray, "permutation link"]:
    """Which span each permutation takes for the target: 0 the target itself, k the k-th rival.

    Links of one example and its twin share their draw, so that what they have in common (one
    attention map, one distance) is permuted as a whole. The draws depend on the seed and the
    pair's number alone, so the result does not depend on how links come in blocks.
    """
    names, code = np.unique(pair, return_inverse=True)
    draws = np.stack([np.random.default_rng([seed, n]).random(n_permutations) for n in names])
    return np.floor(draws[code].T * (n_rivals + 1)).astype(np.int64)


def sign_flips(n_blocks: int, *, n: int, seed: int) -> Iterator[Float[np.ndarray, "some block"]]:
    """`n` random signs of each block, some at a time; the same for the same seed."""
    rng = np.random.default_rng([seed, 1])
    step = max(1, AT_ONCE // max(1, n_blocks))
    for start in range(0, n, step):
        yield rng.choice([-1.0, 1.0], size=(min(step, n - start), n_blocks))
