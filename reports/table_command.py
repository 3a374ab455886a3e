"""`rolecall table`: any table of a run, for the terminal, a spreadsheet or a paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rolecall.reports.option_types import PATH

if TYPE_CHECKING:
    import pandas as pd

    from rolecall.reports.run import Run


@click.command()
@click.argument("run", type=PATH)
@click.argument("name")
@click.option("--csv", "kind", flag_value="csv", help="As CSV, numbers in full.")
@click.option("--latex", "kind", flag_value="latex", help="As LaTeX (booktabs).")
@click.option("--markdown", "kind", flag_value="markdown", help="As Markdown.")
@click.option("--role", help="Only the rows of this role.")
def table(run: Path, name: str, kind: str | None, role: str | None) -> None:
    """Print the table NAME of RUN, such as scores, effects, weights, verdicts, heads or pruning.

    `roles` says for each role which heads do it and whether that matters; `labelled` is the table
    for a paper: the heads that have a label, with score, margin and effect.
    """
    from rolecall.reports.matters import role_stories
    from rolecall.reports.role_summary import print_roles
    from rolecall.reports.run import read_run
    from rolecall.reports.table_text import as_csv, as_latex, as_markdown, print_rows
    from rolecall.reports.terminal import Terminal

    found = read_run(run)
    rows = DERIVED[name](found) if name in DERIVED else _rows(found, name)
    if role is not None:
        rows = _of_role(rows, role)
    if kind == "csv":
        click.echo(as_csv(rows), nl=False)
    elif kind == "markdown":
        click.echo(as_markdown(rows), nl=False)
    elif kind == "latex":
        title = f"Attention heads of {found.name} with a role" if name == "labelled" else ""
        click.echo(as_latex(rows, caption=title, label="tab:heads"), nl=False)
    elif name == "roles":
        wanted = set(rows["role"])
        print_roles([s for s in role_stories(found) if s.role in wanted], Terminal())
    else:
        print_rows(rows, Terminal())


def roles_in_words(run: Run) -> pd.DataFrame:
    """One row a role: which heads do it, and whether the model depends on them.

    Raises:
        ValueError: The run has no scores.
    """
    from rolecall.reports.matters import role_stories
    from rolecall.reports.role_summary import role_table
    from rolecall.reports.run import rows_of

    rows_of(run, "scores")
    return role_table(role_stories(run))


def labelled_heads(run: Run) -> pd.DataFrame:
    """The heads that have a label, by role: head, role, tier, score, margin, effect, direct.

    Raises:
        ValueError: The run has no verdicts.
    """
    from rolecall.reports.run import NO_LABEL, head_name, labels_of, rows_of

    rows_of(run, "heads")
    rows = labels_of(run)
    rows = rows[rows["label"] != NO_LABEL].sort_values(["label", "tier", "layer", "head"])
    names = [head_name(layer, head) for layer, head in rows[["layer", "head"]].to_numpy()]
    roles = [role.replace("_", " ") for role in rows["label"]]
    named = rows.assign(role=roles).rename(columns={"total": "effect"})
    named = named[["role", "tier", "score", "margin", "effect", "direct"]]
    named.insert(0, "head", names)
    return named.reset_index(drop=True)


DERIVED = {"labelled": labelled_heads, "roles": roles_in_words}
"""Tables that are worked out from others."""


def _rows(run: Run, name: str) -> pd.DataFrame:
    from rolecall.reports.run import ALSO, MADE_BY

    found = run.table(name)
    if found is None:
        command = {**MADE_BY, **ALSO}.get(name)
        way = f"; `{command}` writes it" if command else ""
        derived = {"labelled": "heads", "roles": "scores"}
        able = [name for name, needs in derived.items() if needs in run.tables]
        there = ", ".join([*sorted(run.tables), *able])
        raise ValueError(f"{run.folder} has no table {name!r}{way}; it has {there}")
    return found


def _of_role(rows: pd.DataFrame, role: str) -> pd.DataFrame:
    column = next((c for c in ("role", "label") if c in rows.columns), None)
    if column is None:
        raise ValueError("this table has no roles, so --role cannot choose among its rows")
    wanted = {role, role.replace("_", " ")}
    found = rows[rows[column].isin(wanted)]
    if found.empty:
        there = ", ".join(sorted(set(rows[column].dropna())))
        raise ValueError(f"no row of role {role!r}; there are {there}")
    return found
