"""The verdict's tiers on a model whose heads were planted, from the steps of a survey.

Scan, weights, ablation on the planted tasks, and the rules of `tiers.py`. Two things of a verdict
are left out: how stable a label is under resampling, for which the scan's examples are too few,
and the scores where a head's other roles point elsewhere, for no planted head has two.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.judge import judge
from rolecall.analyses.model import Model
from rolecall.analyses.scan import scan
from rolecall.analyses.verdict_inputs import read_inputs
from rolecall.analyses.weights import weights
from rolecall.probes.base import Task

KEY = ["role", "layer", "head"]
EXAMPLES = 36
"""Examples a role in each scan."""


def scored(model: Model, seed: int, tasks: Sequence[Task] = ()) -> pd.DataFrame:
    """The scores table of all roles, with a column `tier` if there are tasks.

    The run folder is thrown away.
    """
    with tempfile.TemporaryDirectory(prefix="rolecall-") as folder:
        out = Path(folder) / "run"
        scores = scan(model, n=EXAMPLES, seed=seed, out=out).scores
        if not tasks:
            return scores
        return scores.merge(tiers_of(model, tasks, seed=seed, out=out), on=KEY, validate="1:1")


def tiers_of(model: Model, tasks: Sequence[Task], *, seed: int, out: Path) -> pd.DataFrame:
    """The tier of each head and role.

    Heads are zeroed: what that costs is exactly what they were built to write. A planted model
    predicts no text, so there is no damage to unrelated text to hold an effect against, only the
    effects on other tasks.

    Args:
        model: The model.
        tasks: From `planted_tasks`.
        seed: Of the statistics.
        out: A run folder with a scan of it; weights and effects are added.

    Returns:
        Columns role, layer, head and tier, `none` where there is none.
    """
    weights(model, seed=seed, out=out)
    ablate(model, tasks, ("zero",), settings=Settings(seed=seed, kl=False, damage=0), out=out)
    given = read_inputs(out)
    rows = judge(given.scores, given.effects, given.weights, context=given.context)
    tier = rows["tier"].where(rows["tier"].notna(), "none")
    return rows[KEY].assign(tier=tier)
