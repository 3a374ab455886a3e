"""`rolecall ablate`: what each head contributes to each task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rolecall.reports.model_options import model_options, open_model, run_folder
from rolecall.reports.option_types import (
    ABOVE_0,
    COUNT,
    ERROR_RATE,
    HEADS,
    MOST,
    OUT_FOLDER,
    SEED,
    TASK,
    TASK_FILE,
    Whole,
    given,
)
from rolecall.reports.visible import visible
from rolecall.reports.written import print_written

RACED = (
    "The chance that any head of any task is decided wrongly is at most {:.0%}, however often one "
    "looks, if a head's effects on items are independent and about normal (confidence sequences)."
)
KINDS = ("zero", "zero_folded", "mean", "resample")


@click.command()
@model_options
@click.option(
    "--task", "names", type=TASK, multiple=True, help="A role or a task; may be repeated. [all]"
)
@click.option(
    "--tasks",
    "files",
    multiple=True,
    type=TASK_FILE,
    help="A JSON-lines file of tasks of your own; may be repeated.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS),
    help="What heads are replaced by; may be repeated. [zero, mean, resample]",
)
@click.option(
    "--heads", type=HEADS, multiple=True, help="L5H1,L6H0; L5H1+L6H0 is removed together. [all]"
)
@click.option("--group", type=click.Choice(["kv"]), help="Remove whole KV groups instead.")
@click.option("-n", "n", type=COUNT, default=48, show_default=True, help="Items a task, about.")
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--out", type=OUT_FOLDER, help="The run folder.")
@click.option(
    "--damage",
    type=Whole(0, MOST),
    default=16,
    show_default=True,
    help="Passages for generic damage.",
)
@click.option("--race", is_flag=True, help="Stop working on a head once its effect is decided.")
@click.option(
    "--band",
    type=ABOVE_0,
    default=0.1,
    show_default=True,
    help="Effects within ± this are negligible (--race).",
)
@click.option(
    "--alpha",
    type=ERROR_RATE,
    default=0.05,
    show_default=True,
    help="Chance that any decision of the race is not that of the full sweep (--race).",
)
@click.option(
    "--screen/--no-screen",
    default=True,
    show_default=True,
    help="Say also how well gradients (one backward pass) rank the same heads.",
)
@click.option("--figures/--no-figures", default=True, show_default=True)
def ablate(
    names: tuple[str, ...],
    files: tuple[Path, ...],
    kinds: tuple[str, ...],
    out: Path | None,
    **options: Any,
) -> None:
    """Replace every head's write and see what each task of MODEL loses.

    Writes effects.parquet, the per-item numbers under effects/items, what gradients say of the
    same heads, and figures. With --race it writes race.parquet instead: which heads matter by more
    than --band under one --kind, decided with as few items as that takes.
    """
    _require_race(options["race"], kinds)
    folder = run_folder(out, options)
    from rolecall.analyses.ablate import DEFAULT_KINDS, Settings
    from rolecall.analyses.ablate import ablate as ablate_model
    from rolecall.reports.progress import progress_bar
    from rolecall.reports.screening_report import print_screening
    from rolecall.reports.terminal import Terminal
    from rolecall.reports.top_effects import print_top_effects

    settings = Settings(
        heads=options["heads"],
        group=options["group"],
        seed=options["seed"],
        damage=options["damage"],
    )
    kinds = kinds or DEFAULT_KINDS
    with progress_bar("head-items") as told:
        model = open_model(options)
        tasks, notes = _tasks(model, names, files, n=options["n"], seed=options["seed"])
        if options["race"]:
            _race(
                model,
                tasks,
                kinds[0],
                settings=settings,
                folder=folder,
                rules={name: options[name] for name in ("band", "alpha", "seed")},
                told=told,
            )
            return
        found = ablate_model(model, tasks, kinds, settings=settings, out=folder, progress=told)
        screened = None
        if options["screen"]:
            told("gradients", 0, 1)
            screened = _screen(model, tasks, found.table, folder)
        if options["figures"]:
            _draw(found.table, [task.name for task in tasks], folder / "figures", told)
            if screened is not None:
                _draw_screened(screened[0], found.table, folder / "figures")
    console = Terminal()
    shown = [task.name for task in tasks]
    print_top_effects(found.table, shown, [*notes, *found.notes], console)
    if screened is not None:
        print_screening(screened[1], console)
    print_written(console, folder)


def _screen(model: Any, tasks: list[Any], table: Any, folder: Path) -> tuple[Any, Any]:
    """What a gradient says of every head, and how well it ranks them; both are written."""
    from rolecall.analyses.screening import agreement, screen, write_screening

    screened = screen(model, tasks)
    found = agreement(screened, table)
    write_screening(folder, screened, found)
    return screened, found


def _draw_screened(screened: Any, table: Any, folder: Path) -> None:
    from rolecall.analyses.screening import beside_exact
    from rolecall.reports.saving import figure_name
    from rolecall.reports.screening_report import screening_figure

    metric = table.drop_duplicates("task").set_index("task")["metric"]
    for task, rows in beside_exact(screened, table, "zero").groupby("task"):
        screening_figure(rows, metric[task], save=folder / figure_name("screening", str(task)))


def _tasks(
    model: Any, names: tuple[str, ...], files: tuple[Path, ...], *, n: int, seed: int
) -> tuple[list[Any], list[str]]:
    """The tasks that can be run, and what to tell of the others and of bad lines."""
    from rolecall.analyses.role_tasks import role_tasks
    from rolecall.analyses.task_file import read_tasks

    model.require_lm_head()
    tasks, notes = [], []
    for path in files:
        read = read_tasks(path, model)
        tasks.append(read.task)
        for problem in read.problems:
            click.echo(visible(f"rolecall: {problem}; the line is left out"), err=True)
        if read.problems:
            notes.append(f"{path}: {len(read.problems)} lines left out, see above")
    if names or not files:
        tasks += role_tasks(model, names, n=n, seed=seed)
    for task in tasks:
        if not task.items:
            why = ", ".join(f"{count} × {why}" for why, count in sorted(task.dropped.items()))
            notes.append(f"{task.name}: no items for this model: {why}")
    usable = [task for task in tasks if task.items]
    if not usable:
        raise ValueError("; ".join(notes) or "there is no task for this model")
    return usable, notes


def _draw(table: Any, tasks: list[str], folder: Path, told: Any) -> None:
    from rolecall.reports.effect_figures import effect_forest, effect_heatmap
    from rolecall.reports.own_task import preferred_kind
    from rolecall.reports.saving import figure_name

    for done, task in enumerate(tasks):
        told("drawing", done, len(tasks))
        rows = table[(table["task"] == task) & table["head"].notna() & table["layer"].notna()]
        if rows.empty:
            continue
        kind = preferred_kind(rows)
        for column in ("total", "direct", "self_repair"):
            stem = folder / figure_name("effects", task, kind, column)
            effect_heatmap(rows, task, kind, column=column, save=stem)
        effect_forest(rows, task, save=folder / figure_name("effects", task, "forest"))


def _require_race(race: bool, kinds: tuple[str, ...]) -> None:
    """Nothing, if the options that only a race reads, and those it does not read, fit together."""
    rules = given("band", "alpha")
    if rules and not race:
        raise ValueError(f"--{rules[0]} is a rule of the race; use it with --race")
    if race and len(kinds) > 1:
        raise ValueError(f"a race takes one --kind, not {len(kinds)}; run it once for each")


def _race(
    model: Any,
    tasks: list[Any],
    kind: str,
    *,
    settings: Any,
    folder: Path,
    rules: dict[str, Any],
    told: Any,
) -> None:
    from rolecall.analyses.racing import Race, race, write_race
    from rolecall.reports.terminal import Terminal
    from rolecall.reports.top_effects import print_race

    units = settings.units(model)
    rows = race(model, tasks, kind, units=units, rules=Race(**rules), progress=told)
    written = write_race(folder, rows)
    console = Terminal()
    print_race(rows, rules["band"], console)
    console.print(RACED.format(rules["alpha"]), style="dim", highlight=False)
    print_written(console, written)
