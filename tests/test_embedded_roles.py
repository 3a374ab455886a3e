"""In the embedded model each of five roles has a head that the scan finds and that matters."""

from functools import cache

import pandas as pd
import pytest

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.heads import head_name
from rolecall.analyses.models import load_model
from rolecall.analyses.role_tasks import role_tasks
from rolecall.analyses.scan import scan

pytestmark = pytest.mark.slow

FIVE = ("previous_token", "delimiter", "induction", "subject_verb", "coreference")


@cache
def found() -> pd.DataFrame:
    """Of each role the head with the best score, beside what removing it costs the role's task."""
    model = load_model()
    scores = scan(model, FIVE).scores
    best = scores.loc[scores.groupby("role")["score"].idxmax()].set_index("role")
    for role in FIVE:
        layer, head = map(int, best.loc[role, ["layer", "head"]])
        tasks = role_tasks(model, [role], n=60)
        settings = Settings(heads=(head_name((layer, head)),), damage=0, kl=False)
        (row,) = ablate(model, tasks, ["mean"], settings=settings).table.to_dict("records")
        for name in ("total_low", "interpretable"):
            best.loc[role, name] = row[name]
    return best


@pytest.mark.parametrize("role", FIVE)
def test_the_scan_finds_a_head_of_the_role(role: str):
    assert found().loc[role, "p_max"] < 0.01
    assert found().loc[role, "margin"] > 0.1


@pytest.mark.parametrize("role", FIVE)
def test_removing_that_head_hurts_the_task_of_the_role(role: str):
    assert found().loc[role, "interpretable"]
    assert found().loc[role, "total_low"] > 0
