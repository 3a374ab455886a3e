"""`rolecall weights`: what the heads' weights say without any text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from rolecall.reports.model_options import model_options, open_model, run_folder
from rolecall.reports.option_types import OUT_FOLDER, SEED
from rolecall.reports.progress import progress_bar
from rolecall.reports.terminal import Terminal, print_whole
from rolecall.reports.written import print_written

TOP = 5


@click.command()
@model_options
@click.option(
    "--seed",
    type=SEED,
    default=0,
    show_default=True,
    help="Of the random matrices to compare with.",
)
@click.option("--out", type=OUT_FOLDER, help="Run folder. [rolecall-out/NAME]")
def weights(seed: int, out: Path | None, **options: Any) -> None:
    """Read copying, previous-token structure and composition off MODEL's weights.

    Writes weights.parquet (one row a head) and composition.parquet (every pair of heads) to the run
    folder. No text is run.
    """
    folder = run_folder(out, options)
    from rolecall.analyses.weights import weights as read_weights

    with progress_bar("layers") as told:
        result = read_weights(open_model(options), seed=seed, out=folder, progress=told)
    console = Terminal()
    print_whole(top_weights(result.table), console)
    console.print(
        "Copying: Σ Re λ / Σ |λ| of the OV circuit; rank: share of tokens raised less than the own "
        "one (even .50). Composition is what exceeds random matrices of these shapes "
        f"({result.baseline:.3f}).",
        style="dim",
        highlight=False,
    )
    print_written(console, folder)


def top_weights(table: Any) -> Table:
    """The heads that lead in each number read off the weights."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("number", "leading heads"):
        shown.add_column(name, no_wrap=name == "number")
    named = {
        "ov_copying": "OV copying",
        "ov_copying_rank": "OV copying, rank",
        "qk_previous_token": "QK to the token before",
        "q_composition": "queries read",
        "k_composition": "keys read",
        "v_composition": "values read",
    }
    for column, words in named.items():
        rows = table.dropna(subset=column).nlargest(TOP, column)
        cells = [_cell(row, column) for row in rows.to_dict("records")]
        shown.add_row(words, ", ".join(cells) or "not to be had from this architecture")
    return shown


def _cell(row: dict[str, Any], column: str) -> str:
    kind = column.split("_")[0]
    fed = f"←L{row[f'{kind}_from_layer']}H{row[f'{kind}_from_head']}" if len(kind) == 1 else ""
    return f"L{row['layer']}H{row['head']}{fed} {row[column]:.2f}"
