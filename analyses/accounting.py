"""The simpler account that a role must beat, chosen on half of the templates, tried on the other.

An account (a fixed offset, the nearest candidate, the same word, the frequent word) needs no model:
it points at one key of each link and is right or wrong there. `even` is what an even head scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from rolecall.analyses.evidence import LinkRow

EVEN = "even"


@dataclass(frozen=True)
class Baseline:
    """What the best simpler account scores on each link.

    Attributes:
        value: Per link, by the account that was chosen on the other half of the templates.
        right: Whether that account points at the target there; False for `even`.
        name: The account, or both halves' accounts where they chose differently.
    """

    value: Float[np.ndarray, " link"]
    right: Bool[np.ndarray, " link"]
    name: str


def best_account(rows: Sequence[LinkRow], accounts: Sequence[str], *, seed: int) -> Baseline:
    """The best of `accounts` and `even`, chosen on half of the templates for the other half.

    With a single template there is no other half: the account is chosen and tried on the same.
    """
    half = _halves([row.template for row in rows], seed)
    weight = _weights(rows)
    value, right = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
    names: list[str] = []
    for side in np.unique(half):
        here = half == side
        chooser = ~here if (~here).any() else here
        name = _choose(rows, accounts, chooser, weight)
        if _mean(rows, name, here, weight) < _mean(rows, EVEN, here, weight):
            name = EVEN  # what the choice found was an accident of its half
        names.append(name)
        scores = account_scores(rows, name)
        value[here] = scores[here]
        right[here] = (scores[here] == 1.0) & (name != EVEN)
    return Baseline(value, right, " / ".join(dict.fromkeys(names)))


def account_scores(rows: Sequence[LinkRow], name: str) -> Float[np.ndarray, " link"]:
    """What one account scores on each link: 1 or 0, and for `even` the even head's score."""
    if name == EVEN:
        return np.array([row.chance for row in rows])
    if name.startswith("offset "):
        offset = int(name.split()[1])
        return np.array([float(offset in row.offsets) for row in rows])
    return np.array([float(getattr(row, name) is True) for row in rows])


def _choose(
    rows: Sequence[LinkRow],
    accounts: Sequence[str],
    chooser: Bool[np.ndarray, " link"],
    weight: Float[np.ndarray, " link"],
) -> str:
    names = [EVEN]
    for account in accounts:
        if account == "offset":
            seen = Counter(
                o for row, c in zip(rows, chooser, strict=True) if c for o in row.offsets
            )
            names += [f"offset {offset:+d}" for offset, _ in seen.most_common(5)]
        else:
            names.append(account)
    return names[int(np.argmax([_mean(rows, name, chooser, weight) for name in names]))]


def _mean(
    rows: Sequence[LinkRow],
    name: str,
    use: Bool[np.ndarray, " link"],
    weight: Float[np.ndarray, " link"],
) -> float:
    return float(np.average(account_scores(rows, name)[use], weights=weight[use]))


def _weights(rows: Sequence[LinkRow]) -> Float[np.ndarray, " link"]:
    count = Counter(row.version for row in rows)
    return np.array([1 / count[row.version] for row in rows])


def _halves(templates: Sequence[str], seed: int) -> np.ndarray:
    names = sorted(set(templates))
    order = np.random.default_rng(seed).permutation(len(names))
    side = {name: int(order[i] % 2) for i, name in enumerate(names)}
    return np.array([side[template] for template in templates])
