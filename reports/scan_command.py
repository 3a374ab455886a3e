"""`rolecall scan`: every head of a model scored for every role, with a map of each role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rolecall.reports.model_options import model_options, open_model, run_folder
from rolecall.reports.option_types import COUNT, OUT_FOLDER, ROLE, SEED
from rolecall.reports.progress import progress_bar
from rolecall.reports.terminal import Terminal
from rolecall.reports.written import print_written


@click.command()
@model_options
@click.option(
    "--role", "roles", type=ROLE, multiple=True, help="A role to score; may be repeated. [all]"
)
@click.option("-n", "n", type=COUNT, default=96, show_default=True, help="Examples a role, about.")
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Of the examples and the resampling."
)
@click.option("--out", type=OUT_FOLDER, help="Run folder. [rolecall-out/NAME]")
@click.option("--figures/--no-figures", default=True, help="Draw a layer × head map of each role.")
def scan(roles: tuple[str, ...], n: int, seed: int, out: Path | None, **options: Any) -> None:
    """Score every head of MODEL for every role.

    Writes evidence/, scores.parquet, attention/, manifest.json and figures/ to the run folder, and
    prints the leading heads of each role. What is there already, for the same model and data, is
    kept.
    """
    folder = run_folder(out, options)
    from rolecall.analyses.attention_sample import store_samples
    from rolecall.analyses.scan import scan as scan_model
    from rolecall.reports.heatmap import role_heatmap
    from rolecall.reports.saving import figure_name
    from rolecall.reports.top_heads import print_top_heads

    figures = options.pop("figures")
    with progress_bar("tokens") as told:
        model = open_model(options)
        result = scan_model(model, roles, n=n, seed=seed, out=folder, progress=told)
        told("keeping examples", 1, 1)
        store_samples(model, result.scores, folder, n=n, seed=seed)
        names = list(result.scores["role"].unique()) if figures else []
        for done, role in enumerate(names):
            told(f"drawing {role}"[:18], done, len(names))
            role_heatmap(result.scores, role, save=folder / "figures" / figure_name("scores", role))
    console = Terminal()
    print_top_heads(result.scores, result.manifest, console)
    print_written(console, folder)
