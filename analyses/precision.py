"""Precision and recall of role labels, measured where the truth is known.

Planted models say which heads should get a label; models with random weights say how often one is
given where there is nothing. Labels are those of the verdict from scores alone; another rule can
be put in its place (`Labeller`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from rolecall.analyses.judge import judge
from rolecall.analyses.model import Model
from rolecall.analyses.models import load_model
from rolecall.analyses.planted import Planted
from rolecall.analyses.planted_designs import (
    ARCHITECTURES,
    IMPOSTORS,
    build,
    draw_design,
    word_tokenizer,
)
from rolecall.analyses.random_models import random_model
from rolecall.analyses.scan import scan

Labeller = Callable[[pd.DataFrame], pd.Series]
"""From rows of the scores table to whether each is a label."""
REFERENCE_NOISE = 0.01
"""Noise on planted weights at which precision and recall must be 1."""
KEY = ["role", "layer", "head"]
EXAMPLES = 36
"""Examples a role in each scan."""
LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Noise levels of the curve."""


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
) -> pd.DataFrame:
    """Precision and recall of each role, one row a role.

    Args:
        n_planted: Number of planted models, architectures in turn.
        n_random: Number of models with random weights.
        seed: Fixes all models and their data.
        noise: On the planted weights, see `planted.Design`.
        label: Which rows of the scores table are labels; those of the verdict by default.

    Returns:
        The columns of `tabulate`.
    """
    planted = pd.concat(planted_outcomes(range(seed, seed + n_planted), noise=noise, label=label))
    random = pd.concat(random_outcomes(range(seed, seed + n_random), label=label))
    return tabulate(planted, random)


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
    seeds: Iterable[int], *, noise: float, label: Labeller
) -> Iterator[pd.DataFrame]:
    """Yields a frame for each planted model: its heads × roles, the truth and the label."""
    for seed in seeds:
        design = draw_design(ARCHITECTURES[seed % len(ARCHITECTURES)], seed=seed, noise=noise)
        planted, model = build(design)
        yield compared(planted, scored(model, seed), label).assign(model=f"planted {seed}")


def random_outcomes(seeds: Iterable[int], *, label: Labeller) -> Iterator[pd.DataFrame]:
    """Yields a frame for each model of random weights: its heads × roles and the label."""
    for seed in seeds:
        architecture = ARCHITECTURES[seed % len(ARCHITECTURES)]
        tokenizer = word_tokenizer(causal=architecture != "bert")
        module = random_model(architecture, len(tokenizer), seed=seed)
        scores = scored(load_model(module, tokenizer=tokenizer), seed)
        rows = scores[["layer", "head", "role"]]
        yield rows.assign(labelled=label(scores), model=f"random {seed}")


def scored(model: Model, seed: int) -> pd.DataFrame:
    """The scores table of all roles; its run folder is thrown away."""
    with tempfile.TemporaryDirectory(prefix="rolecall-") as folder:
        return scan(model, n=EXAMPLES, seed=seed, out=Path(folder) / "run").scores


def compared(planted: Planted, scores: pd.DataFrame, label: Labeller) -> pd.DataFrame:
    """The heads × roles of a planted model with what is true and what was said.

    A head that rests on the first token wherever its trigger is absent is a sink there as well, so
    `first_token` counts neither for nor against it.

    Returns:
        Columns layer, head, role, name (what was planted), true, labelled.
    """
    heads = [planted.heads[seat] for seat in zip(scores["layer"], scores["head"], strict=True)]
    rows = scores[["layer", "head", "role"]].assign(
        name=[head.name for head in heads],
        true=[head.role == role for head, role in zip(heads, scores["role"], strict=True)],
        labelled=label(scores),
    )
    rests = pd.Series([head.rests for head in heads], index=rows.index)
    return rows[~(rests & (rows["role"] == "first_token") & ~rows["true"])]


def tabulate(planted: pd.DataFrame, random: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row a role from outcomes of planted models and, if given, of random ones.

    Returns:
        Columns role, heads (planted for it), found, missed, wrong (other heads labelled), recall,
        recall_low, precision, precision_low (Wilson, 95 %; null without heads or labels),
        impostors (made to look like it), impostors_labelled, and for random models random_heads,
        random_labels.
    """
    tables = [role_row(role, rows) for role, rows in planted.groupby("role")]
    table = pd.DataFrame(tables)
    if random is not None:
        counts = random.groupby("role")["labelled"].agg(random_heads="size", random_labels="sum")
        table = table.merge(counts, left_on="role", right_index=True, how="left")
    return table


def role_row(role: object, rows: pd.DataFrame) -> dict[str, object]:
    """A role's counts and rates."""
    found = int((rows["true"] & rows["labelled"]).sum())
    heads, labels = int(rows["true"].sum()), int(rows["labelled"].sum())
    fakes = rows["name"].map(IMPOSTORS) == role
    return {
        "role": role,
        "heads": heads,
        "found": found,
        "missed": heads - found,
        "wrong": labels - found,
        **rate("recall", found, heads),
        **rate("precision", found, labels),
        "impostors": int(fakes.sum()),
        "impostors_labelled": int((fakes & rows["labelled"]).sum()),
    }


def rate(name: str, hits: int, tries: int) -> dict[str, float | None]:
    """A share and the lower end of its 95 % Wilson interval; None for no tries."""
    if not tries:
        return {name: None, f"{name}_low": None}
    low, _ = proportion_confint(hits, tries, method="wilson")
    return {name: hits / tries, f"{name}_low": float(cast("float", low))}
