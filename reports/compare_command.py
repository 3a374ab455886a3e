"""`rolecall compare`: two or more runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rolecall.reports.option_types import OUT_FOLDER, PATH
from rolecall.reports.terminal import Terminal
from rolecall.reports.written import print_written

if TYPE_CHECKING:
    import pandas as pd

    from rolecall.reports.run import Run


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--steps", help="The training step of each run, e.g. 0,1000,5000; --out then has emergence.pdf."
)
@click.option("--out", type=OUT_FOLDER, help="Folder for tables and figures.")
def compare(runs: tuple[Path, ...], steps: str | None, out: Path | None) -> None:
    """Put RUNS side by side: two models, checkpoints, seeds or data sets.

    Which heads keep their label, how the ranks of all heads agree role by role, and where in
    relative depth each role lives. Models of different shapes are compared by depth alone.

    Checkpoints of a training: scan each with --revision (or its folder) into a run folder of its
    own, then compare these with --steps and --out.
    """
    if len(runs) < 2:
        raise ValueError("there is nothing to compare one run with; name two or more run folders")
    at = _steps(steps, len(runs))
    if at and out is None:
        raise ValueError("--steps draws when each role emerges; name a folder for it with --out")
    from rolecall.analyses import compare as compared
    from rolecall.reports.compare_figure import depth_comparison
    from rolecall.reports.emergence import best_by_step, emergence
    from rolecall.reports.run import labels_of, read_run
    from rolecall.reports.table_text import print_rows

    found = _named([read_run(folder) for folder in runs])
    labels = {name: labels_of(run) for name, run in found.items()}
    console = Terminal()
    for name, run in found.items():
        if "heads" not in run.tables:
            said = f"{name}: no verdicts; heads whose attention stands out are compared"
            console.print(said, markup=False, highlight=False)
    tables: dict[str, pd.DataFrame] = {}
    if compared.same_heads(labels):
        for line in _on_weights(found):
            console.print(line, markup=False, highlight=False)
        tables["labels"] = compared.label_changes(labels)
        tables["agreement"] = compared.agreement(labels)
        scores = {n: r.tables["scores"] for n, r in found.items() if "scores" in r.tables}
        if len(scores) > 1:
            tables["ranks"] = compared.rank_correlation(scores)
    else:
        console.print("The runs have other layers or heads, so only depth can be compared.")
    layers = {name: run.shape[0] for name, run in found.items()}
    tables["depth"] = compared.role_depths(labels, layers)
    if at:
        tables["emergence"] = best_by_step(dict(zip(at, found.values(), strict=True)))
    for title, rows in tables.items():
        console.print(f"\n[bold]{TITLES[title]}[/bold]")
        print_rows(rows, console, most=30)
    if out is not None:
        for title, rows in tables.items():
            out.mkdir(parents=True, exist_ok=True)
            rows.to_csv(out / f"{title}.csv", index=False, lineterminator="\n")
        depth_comparison(tables["depth"], save=out / "depth")
        if at:
            emergence(dict(zip(at, found.values(), strict=True)), save=out / "emergence")
        print_written(console, out)


MATCHED = (
    "Heads are matched by layer and number, which means something for checkpoints of one training, "
    "not for two trainings."
)
TITLES = {
    "labels": "Heads with a label in some run",
    "agreement": "Heads with the same label in both",
    "ranks": "Rank correlation of all heads' scores",
    "depth": "Where roles live",
    "emergence": "The best head of each role, step by step",
}


def _on_weights(runs: dict[str, Run]) -> list[str]:
    """What to say of runs that are not known to be of one model: nothing where they are."""
    weights = {n: run.manifest.get("model", {}).get("weights_hash") for n, run in runs.items()}
    unknown = [name for name, weight in weights.items() if weight is None]
    said = []
    if len({weight for weight in weights.values() if weight is not None}) > 1:
        said.append("The runs have other weights.")
    if unknown:
        said.append(f"Which weights were run is not known of {', '.join(unknown)}.")
    return [*said, MATCHED] if said else []


def _named(runs: list[Run]) -> dict[str, Run]:
    """Each run by its model's name, by its folder too where names are the same."""
    names = [run.name for run in runs]
    named: dict[str, Run] = {}
    for i, run in enumerate(runs):
        name = run.name if names.count(run.name) == 1 else f"{run.name} ({run.folder.name})"
        named[name if name not in named else f"{name} #{i + 1}"] = run
    return named


def _steps(steps: str | None, count: int) -> tuple[int, ...]:
    if steps is None:
        return ()
    try:
        at = tuple(int(part) for part in steps.split(","))
    except ValueError:
        raise ValueError(f"--steps takes whole numbers with commas, not {steps!r}") from None
    if min(at) < 0 or len(set(at)) < len(at):
        raise ValueError(f"--steps takes different steps, none below 0, not {steps!r}")
    if len(at) != count:
        raise ValueError(f"--steps names {len(at)} steps for {count} runs; give one for each")
    return at
