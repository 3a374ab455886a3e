"""Precision and recall of role labels, and right tiers, measured where the truth is known.

Planted models say which heads should get which label and tier; models with random weights say how
often a label is given where there is nothing. Labels are those of the verdict from scores alone;
another rule can be put in its place (`Labeller`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from rolecall.analyses.judge import judge
from rolecall.analyses.models import load_model
from rolecall.analyses.planted import Planted
from rolecall.analyses.planted_designs import (
    ARCHITECTURES,
    IMPOSTORS,
    build,
    draw_design,
    word_tokenizer,
)
from rolecall.analyses.planted_table import RANDOM, by_truth, tabulate
from rolecall.analyses.planted_tasks import planted_tasks
from rolecall.analyses.planted_truth import NONE, right_tiers, spelled
from rolecall.analyses.planted_variants import original
from rolecall.analyses.planted_verdict import KEY, scored
from rolecall.analyses.random_models import random_model
from rolecall.analyses.tiers import Thresholds

Labeller = Callable[[pd.DataFrame], pd.Series]
"""From rows of the scores table to whether each is a label."""
REFERENCE_NOISE = 0.01
"""Noise on planted weights at which precision and recall must be 1."""
ITEMS = 12
"""Items a planted task."""
OTHER_SENTENCES = 1000
"""Added to the seed of items, so that they are not the scan's examples."""
LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Noise levels of the curve."""


@dataclass(frozen=True)
class Report:
    """What was said of planted and random models, held against the truth.

    Attributes:
        roles: One row a role, see `tabulate`.
        truths: One row for each right tier and one for random models, see `by_truth`.
        wrong: The planted heads × roles with a wrong tier, columns of `compared`.
    """

    roles: pd.DataFrame
    truths: pd.DataFrame
    wrong: pd.DataFrame

    @property
    def ok(self) -> bool:
        """Whether all tiers are right, and random models labelled within the stated error rate."""
        row = self.truths.set_index("truth").loc[RANDOM]
        allowed = Thresholds().alpha * row["cases"]
        return self.wrong.empty and bool(row["cases"] - row["right"] <= allowed)


def by_verdict(scores: pd.DataFrame) -> pd.Series:
    """Whether each row shows the pattern of its role, and prefers it to the rivals (`tiers.py`)."""
    judged = judge(scores).set_index(KEY)
    shown = judged["pattern"].astype(bool) & judged["selective"].astype(bool)
    return shown.reindex(pd.MultiIndex.from_frame(scores[KEY])).set_axis(scores.index)


def planted_report(
    n_planted: int = 30,
    n_random: int = 20,
    seed: int = 0,
    *,
    noise: float = REFERENCE_NOISE,
    label: Labeller = by_verdict,
) -> Report:
    """Precision and recall of each role's label, and how many tiers are right.

    Args:
        n_planted: Number of planted models, architectures in turn.
        n_random: Number of models with random weights.
        seed: Fixes all models and their data.
        noise: On the planted weights, see `planted.Design`.
        label: Which rows of the scores table are labels; those of the verdict by default.
    """
    planted = pd.concat(
        planted_outcomes(range(seed, seed + n_planted), noise=noise, label=label, tiers=True)
    )
    random = pd.concat(random_outcomes(range(seed, seed + n_random), label=label))
    return Report(
        tabulate(planted, random), by_truth(planted, random), planted[~planted["tier_right"]]
    )


def noise_curve(
    n_planted: int = 6,
    seed: int = 0,
    *,
    levels: Sequence[float] = LEVELS,
    label: Labeller = by_verdict,
) -> pd.DataFrame:
    """Recall and precision of each role at each noise level, columns of `tabulate` and `noise`."""
    tables = []
    for noise in levels:
        rows = planted_outcomes(range(seed, seed + n_planted), noise=noise, label=label)
        tables.append(tabulate(pd.concat(rows)).assign(noise=noise))
    return pd.concat(tables, ignore_index=True)


def planted_outcomes(
    seeds: Iterable[int], *, noise: float, label: Labeller, tiers: bool = False
) -> Iterator[pd.DataFrame]:
    """Yields a frame for each planted model: its heads × roles, the truth and what was said.

    Args:
        seeds: One a model.
        noise: On the weights.
        label: Which rows of the scores table are labels.
        tiers: Whether effects are measured as well, so that there are tiers to compare.
    """
    for seed in seeds:
        design = draw_design(ARCHITECTURES[seed % len(ARCHITECTURES)], seed=seed, noise=noise)
        planted, model = build(design)
        asked = OTHER_SENTENCES + seed
        tasks = planted_tasks(planted, model.aligner, n=ITEMS, seed=asked) if tiers else []
        scores = scored(model, seed, tasks)
        yield compared(planted, scores, label).assign(model=f"planted {seed}")


def random_outcomes(seeds: Iterable[int], *, label: Labeller) -> Iterator[pd.DataFrame]:
    """Yields a frame for each model of random weights: its heads × roles and the label.

    A label asks for a pattern whatever the effects are, so none are measured.
    """
    for seed in seeds:
        architecture = ARCHITECTURES[seed % len(ARCHITECTURES)]
        tokenizer = word_tokenizer(causal=architecture != "bert")
        module = random_model(architecture, len(tokenizer), seed=seed)
        scores = scored(load_model(module, tokenizer=tokenizer), seed)
        rows = scores[["layer", "head", "role"]]
        yield rows.assign(labelled=label(scores), model=f"random {seed}")


def compared(planted: Planted, scores: pd.DataFrame, label: Labeller) -> pd.DataFrame:
    """The heads × roles of a planted model with what is true and what was said.

    A head that rests on the first token wherever its trigger is absent is a sink there as well, so
    `first_token` counts neither for nor against it.

    Returns:
        Columns layer, head, role, name (what was planted), true, impostor, labelled; where scores
        have tiers, tier (`none` for none), right (the tiers that are right) and tier_right.
    """
    seats = list(zip(scores["layer"], scores["head"], strict=True))
    heads = [planted.heads[seat] for seat in seats]
    fakes = [IMPOSTORS.get(original(head.name)) for head in heads]
    rows = scores[["layer", "head", "role"]].assign(
        name=[head.name for head in heads],
        true=[head.role == role for head, role in zip(heads, scores["role"], strict=True)],
        impostor=[fake == role for fake, role in zip(fakes, scores["role"], strict=True)],
        labelled=label(scores),
    )
    if "tier" in scores:
        known = right_tiers(planted)
        right = [known.get(key, NONE) for key in zip(seats, scores["role"], strict=True)]
        rows["tier"] = scores["tier"]
        rows["right"] = [spelled(tiers) for tiers in right]
        rows["tier_right"] = [t in tiers for t, tiers in zip(scores["tier"], right, strict=True)]
    rests = pd.Series([head.rests for head in heads], index=rows.index)
    return rows[~(rests & (rows["role"] == "first_token") & ~rows["true"])]
