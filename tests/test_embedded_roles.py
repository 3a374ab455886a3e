"""In the embedded model each of five roles has a head that the scan finds and that matters."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest

from rolecall.analyses.models import load_model
from rolecall.analyses.survey import survey
from rolecall.analyses.tables import read_table

pytestmark = pytest.mark.slow

LABELLED = ("previous_token", "induction", "subject_verb", "coreference")
FIVE = (*LABELLED, "delimiter")


@cache
def found() -> pd.DataFrame:
    """Of each role the head with the best score, what removing it costs, and its tier."""
    with TemporaryDirectory() as folder:
        survey(load_model(), out=Path(folder))
        scores, effects, verdicts = (
            read_table(Path(folder), name) for name in ("scores", "effects", "verdicts")
        )
    best = scores.loc[scores.groupby("role")["score"].idxmax()]
    judged = verdicts[["role", "layer", "head", "task", "tier"]]
    found = best.merge(judged, on=["role", "layer", "head"], how="left")
    costs = effects[effects["ablation"] == "mean"]
    costs = costs[["task", "layer", "head", "total", "total_low", "interpretable"]]
    return found.merge(costs, on=["task", "layer", "head"], how="left").set_index("role")


@pytest.mark.parametrize("role", FIVE)
def test_the_scan_finds_a_head_of_the_role(role: str):
    assert found().loc[role, "p_max"] < 0.01
    assert found().loc[role, "margin"] > 0.1


@pytest.mark.parametrize("role", FIVE)
def test_removing_that_head_hurts_the_task_of_the_role(role: str):
    assert found().loc[role, "interpretable"]
    assert found().loc[role, "total_low"] > 0


@pytest.mark.parametrize("role", LABELLED)
def test_that_head_has_the_label_of_the_role_with_an_effect(role: str):
    assert found().loc[role, "tier"] in ("A", "B")
