"""`rolecall verdict`: labels, or an honest "no clean label", from a run folder."""

from __future__ import annotations

from pathlib import Path

import click

from rolecall.reports.commands_kept import writes_to
from rolecall.reports.option_types import (
    AT_LEAST_0,
    ERROR_RATE,
    MOST,
    PATH,
    SEED,
    SHARE,
    Whole,
)
from rolecall.reports.terminal import Terminal
from rolecall.reports.written import print_written


@click.command()
@click.argument("run", type=PATH)
@click.option(
    "--alpha", type=ERROR_RATE, default=0.05, show_default=True, help="Family-wise error rate."
)
@click.option(
    "--min-margin",
    type=SHARE,
    default=0.10,
    show_default=True,
    help="Least lower bound of the margin over the best simpler account.",
)
@click.option(
    "--min-consistency",
    type=SHARE,
    default=0.90,
    show_default=True,
    help="Least share of templates on which the margin is positive.",
)
@click.option(
    "--min-templates",
    type=Whole(0, MOST),
    default=4,
    show_default=True,
    help="Fewer templates give no interval.",
)
@click.option(
    "--min-ratio",
    type=AT_LEAST_0,
    default=2.0,
    show_default=True,
    help="Own effect over that on other tasks, for a specific effect.",
)
@click.option(
    "--negligible",
    type=AT_LEAST_0,
    default=0.05,
    show_default=True,
    help="Effects within it count as none: share of the clean metric, or nats.",
)
@click.option(
    "--dormant",
    type=SHARE,
    default=0.90,
    show_default=True,
    help="Rest on the first position at which a head is asleep.",
)
@click.option(
    "--min-rest",
    type=SHARE,
    default=0.50,
    show_default=True,
    help="Least rest on every role's links for a sink.",
)
@click.option(
    "--min-stability",
    type=SHARE,
    default=0.80,
    show_default=True,
    help="Least share of resamples in which a label stays.",
)
@click.option(
    "--score-scale",
    type=AT_LEAST_0,
    default=1.0,
    show_default=True,
    help="Multiplies the score that each role needs.",
)
@click.option(
    "--resamples",
    type=Whole(20, MOST),
    default=1000,
    show_default=True,
    help="Bootstrap resamples.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the resampling.")
def verdict(run: Path, resamples: int, seed: int, **thresholds: float) -> None:
    """Decide the tables of a RUN folder: which head has which role, and how firmly.

    Needs scores.parquet and uses evidence/, effects.parquet and weights.parquet where they are
    there; neither the model nor its text is needed. Writes verdicts.parquet, heads.csv,
    near_misses.csv and sensitivity.csv.
    """
    if not run.is_dir():
        raise ValueError(f"{run} is no folder; give a run folder, as `rolecall scan` writes it")
    from rolecall.analyses.tiers import Thresholds
    from rolecall.analyses.verdict import verdict as decide
    from rolecall.reports.verdict_summary import print_verdicts

    writes_to(run)
    result = decide(run, Thresholds(**thresholds), n_resamples=resamples, seed=seed)  # type: ignore[arg-type]
    console = Terminal()
    print_verdicts(result, console)
    print_written(console, run)
