"""Whether the model was shown to do a task, in words: what an effect on it is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rolecall.analyses.number_text import number, share

FEW = 5
"""Fewer items show nothing, even if all of them are right."""


def ability_in_words(row: Mapping[Any, Any]) -> str:
    """How well the model does a task, from any of the task's rows of the effects table.

    >>> ability_in_words({"clean_accuracy": 0.58, "n_items": 24, "clean": 3.2})
    '58 % of 24 items right'
    >>> ability_in_words({"control": 7.9, "clean": 8.0, "n_items": 24})
    'loss 8.00 against 7.90 by chance'
    """
    few = f"; fewer than {FEW} items show nothing" if row["n_items"] < FEW else ""
    if pd.notna(row.get("clean_accuracy")):
        items = "item" if row["n_items"] == 1 else "items"
        return f"{share(row['clean_accuracy'])} of {row['n_items']:.0f} {items} right{few}"
    if pd.notna(row.get("control")):
        return f"loss {number(row['clean'])} against {number(row['control'])} by chance"
    return f"{str(row.get('metric', 'metric')).replace('_', ' ')} {number(row['clean'])}"
