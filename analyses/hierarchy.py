"""Which roles are simpler accounts of others: sink, then offset, then kind of token, then content.

A head is not called by the richer role where a simpler one says the same (methods: a previous-token
head aligns with dependencies at exactly the rate at which they are adjacent). So each simple role
names its *account*: the links on which a head of that kind would be right as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from rolecall.analyses.accounting import account_scores
from rolecall.analyses.evidence import LinkRow

SINK, OFFSET, KIND, CONTENT = range(4)
LEVEL_NAMES = ("sink", "offset", "kind of token", "content")

_LEVELS = {"first_token": SINK, "delimiter": KIND, "duplicate_token": KIND}
_ACCOUNTS = {
    "first_token": "position 0",
    "previous_token": "offset -1",
    "next_token": "offset +1",
    "current_token": "offset +0",
    "duplicate_token": "same_word",
}


def level(role: str, family: str) -> int:
    """How rich an account a role is: `SINK`, `OFFSET`, `KIND` or `CONTENT`."""
    return _LEVELS.get(role, OFFSET if family == "positional" else CONTENT)


def account(role: str, baseline_name: str | None) -> str | None:
    """What a head of this role could be mistaken for another by, or None.

    A simple role is its own account; of a content role it is the distance at which its target
    stands most often, if that is what its baseline is.
    """
    if role in _ACCOUNTS:
        return _ACCOUNTS[role]
    name = (baseline_name or "").split(" / ")[0]
    return name if name.startswith("offset") else None


def explained(rows: Sequence[LinkRow], name: str) -> Bool[np.ndarray, " link"]:
    """On which links a head that follows this account would be right."""
    if name == "position 0":
        return np.array([0 in row.target for row in rows], dtype=bool)
    return account_scores(rows, name) == 1.0
