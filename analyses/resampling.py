"""Intervals by resampling templates then examples, and chance by permuting targets among rivals.

The unit is the template and the example, never the token: tokens of a sentence share one attention
map (`methods` literature: cluster bootstrap; p = (1 + #≥) / (1 + B)).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

Weights = Float[np.ndarray, "resample example"]


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
    weights = np.zeros((n_resamples, len(code)))
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
    total = weights @ np.where(known, values, 0.0)
    count = weights @ known.astype(float)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


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
