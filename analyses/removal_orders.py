"""In which order heads are removed: by what a run measured, or at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from random import Random

import pandas as pd

from rolecall.analyses.heads import Head, Unit
from rolecall.analyses.labels import LABELS
from rolecall.analyses.manifest_file import read_manifest
from rolecall.analyses.own_task import HEAD, primary
from rolecall.analyses.tables import read_table

RANDOM, LARGEST, SMALLEST = "random", "largest effect", "smallest effect"


@dataclass(frozen=True)
class Removal:
    """One order in which heads go.

    Attributes:
        name: `random`, `largest effect`, `smallest effect`, or a role.
        heads: First to go first.
        stops: After how many of them it is measured.
    """

    name: str
    heads: tuple[Head, ...]
    stops: tuple[int, ...]

    def units(self) -> dict[int, Unit]:
        """How many are removed → which."""
        return {n: Unit(tuple(sorted(self.heads[:n]))) for n in self.stops if n}


@dataclass(frozen=True)
class Ranks:
    """What a run says of heads that an order can be made of.

    Attributes:
        scores: The scores table.
        effects: One row a task and head, `usable` where the model does the task.
        tasks: Role → its task's name, or None.
        held: Role → the heads that are labelled with it.
    """

    scores: pd.DataFrame
    effects: pd.DataFrame
    tasks: Mapping[str, str | None]
    held: Mapping[str, frozenset[Head]]

    @property
    def able(self) -> frozenset[str]:
        """The tasks that were measured and that the model does."""
        return frozenset(self.effects.loc[self.effects["usable"], "task"])

    def labelled_tasks(self) -> tuple[str, ...]:
        """Those of the tasks above whose role some head is labelled with."""
        named = {self.tasks.get(role) for role in self.held}
        return tuple(sorted(task for task in named if task in self.able))


def read_ranks(run: Path) -> Ranks:
    """What the tables of a run folder say; without verdicts no head is labelled.

    Raises:
        ValueError: It has no scores or no effects.
    """
    facts = read_manifest(run).get("roles", {})
    verdicts = (run / "verdicts.parquet").is_file()
    named = read_table(run, "verdicts") if verdicts else pd.DataFrame(columns=["role", "tier"])
    named = named[named["tier"].isin(LABELS)]
    return Ranks(
        scores=read_table(run, "scores"),
        effects=primary(read_table(run, "effects")),
        tasks={role: said.get("task") for role, said in facts.items()},
        held={str(role): frozenset(_heads(rows)) for role, rows in named.groupby("role")},
    )


def removals(
    ranks: Ranks, task: str, every: Sequence[Head], *, draws: int, seed: int
) -> list[Removal]:
    """The orders for one task: its roles', largest and smallest effect first, and random ones.

    A role's order has the heads that are labelled with it, then the others, each by score. Those by
    effect hold the heads whose effect was measured.
    """
    roles = sorted(role for role, name in ranks.tasks.items() if name == task)
    orders = [(role, _by_role(ranks, role)) for role in roles]
    rows = ranks.effects[ranks.effects["task"] == task]
    for name, rising in ((LARGEST, False), (SMALLEST, True)):
        ranked = rows.sort_values(["total", *HEAD], ascending=[rising, True, True])
        orders.append((name, _heads(ranked)))
    for draw in range(draws):
        orders.append((RANDOM, tuple(Random(seed * 1000 + draw).sample(every, len(every)))))
    stops = [len(ranks.held.get(role, ())) for role in roles]
    return [Removal(name, heads, counts(len(heads), *stops)) for name, heads in orders if heads]


def counts(n: int, *more: int) -> tuple[int, ...]:
    """After how many removals to look: 0, 1, 2, 3, 4, 6, 8, 12 … and `n`, and what is asked for."""
    powers = (part for power in count() for part in (2**power, 3 * 2 ** (power - 1)))
    usual = takewhile(lambda stop: stop <= n, powers)
    return tuple(sorted({0, n, *(int(stop) for stop in usual), *(m for m in more if m <= n)}))


def _by_role(ranks: Ranks, role: str) -> tuple[Head, ...]:
    rows = ranks.scores[ranks.scores["role"] == role]
    rows = rows.sort_values(["score", *HEAD], ascending=[False, True, True])
    held = ranks.held.get(role, frozenset())
    return tuple(sorted(_heads(rows), key=lambda head: head not in held))


def _heads(rows: pd.DataFrame) -> tuple[Head, ...]:
    return tuple((int(layer), int(head)) for layer, head in rows[HEAD].to_numpy())
