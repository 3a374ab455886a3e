"""Which heads do each role, and does the model depend on them: a run's tables, role by role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from rolecall.reports.all_at_once import all_at_once
from rolecall.reports.own_task import own_effects, own_tasks
from rolecall.reports.role_sentence import Findings, Named, Together, role_sentence
from rolecall.reports.run import NO_LABEL, Run, head_name, labels_of, significant

TOP = 6
HEAD = ["layer", "head"]


@dataclass(frozen=True)
class RoleStory:
    """What a reader wants to know of a role first.

    Attributes:
        role: Its name.
        title: The name without underscores.
        family, definition, source: From the manifest; empty where it does not say.
        kind: `mass` or `hit`.
        heads: The heads that hold it, leading ones first, each with what is known of it.
        helpers: Heads without its pattern that its task needs all the same (tier D).
        sentence: Which heads do it and whether that matters, in plain words.
        verdict: The same in a word or two: `yes`, `yes, not only here`, `yes, together`,
            `not detected`, `not tested`, `no head`, `not judged`.
        task: The task that decides, or why there is none.
        best: The strongest heads whether or not they hold the role.
        together: What removing all its heads at once does, if that was tried.
    """

    role: str
    title: str
    family: str
    definition: str
    source: str
    kind: str
    heads: tuple[Named, ...]
    helpers: tuple[Named, ...]
    sentence: str
    verdict: str
    task: str
    best: tuple[Named, ...]
    together: Together | None

    @property
    def tiers(self) -> dict[str, str]:
        """Head → tier, for the heads that hold the role and its helpers."""
        return {head["name"]: head["tier"] for head in (*self.heads, *self.helpers)}


def role_stories(run: Run) -> tuple[RoleStory, ...]:
    """A story for each role of the scores, in the order of families and names."""
    scores = run.table("scores")
    if scores is None:
        return ()
    joined = scores.merge(
        own_effects(run).drop(columns=["kv_group", "p_value", "p_max", "q_value"], errors="ignore"),
        on=["role", *HEAD],
        how="left",
    )
    verdicts = _verdicts(run)
    tasks = own_tasks(run)
    known = scores[["family", "role"]].drop_duplicates().sort_values(["family", "role"])
    return tuple(
        _story(run, role, rows=joined[joined["role"] == role], verdicts=verdicts, tasks=tasks)
        for role in known["role"]
    )


def headline(run: Run) -> tuple[str, ...]:
    """What the run found, in two or three plain sentences."""
    if "scores" not in run.tables:
        return ("This run has no scores yet, so nothing can be said of any head.",)
    labels = labels_of(run)
    n, named = len(labels), int((labels["label"] != NO_LABEL).sum())
    if "heads" not in run.tables:
        return (
            f"In {named} of {n} heads attention stands out for some role.",
            "No verdicts were worked out in this run, so none of these is a label yet.",
        )
    said = (
        f"{named} of {n} heads {_have(named)} a clean label; {n - named} {_have(n - named)} none."
    )
    if not named:
        return (said,)
    if "effects" not in run.tables:
        return said, "Whether the model depends on them was not measured: no effects in this run."
    tiers = labels.loc[labels["label"] != NO_LABEL, "tier"].value_counts()
    counted = [
        f"{tiers[tier]} {one if tiers[tier] == 1 else several} ({tier})"
        for tier, one, several in COUNTED
        if tiers.get(tier)
    ]
    *most, last = counted
    return said, f"Of these, {', '.join(most)}{' and ' * bool(most)}{last}."


def _have(n: int) -> str:
    return "has" if n == 1 else "have"


COUNTED = (
    (
        "A",
        "matters to the model for its role above all",
        "matter to the model for their role above all",
    ),
    ("B", "matters, but not only for its role", "matter, but not only for their role"),
    (
        "C",
        "shows the pattern without a detected effect",
        "show the pattern without a detected effect",
    ),
    ("E", "works against its role", "work against their role"),
)
"""Tier, what is said of one head of it, and of several."""


def _verdicts(run: Run) -> pd.DataFrame:
    """Role, layer, head, tier and reasons of every head that holds a role."""
    columns = ["role", "layer", "head", "tier", "reasons"]
    verdicts = run.table("verdicts")
    if verdicts is not None:
        return verdicts[columns]
    long = labels_of(run).explode("roles").rename(columns={"roles": "role"}).dropna(subset="role")
    return long.assign(reasons="")[columns]


def _story(
    run: Run, role: str, *, rows: pd.DataFrame, verdicts: pd.DataFrame, tasks: dict[str, str]
) -> RoleStory:
    facts = run.manifest.get("roles", {}).get(role, {})
    ranked = rows.assign(sure=significant(rows)).sort_values(
        ["sure", "score"], ascending=False, kind="stable"
    )
    here = verdicts[verdicts["role"] == role].drop(columns="role")
    held = here.merge(ranked, on=HEAD, how="left").assign(
        total=lambda t: t["total"].astype(float), score=lambda t: t["score"].astype(float)
    )
    held = held.sort_values(
        ["tier", "total", "score"], ascending=[True, False, False], kind="stable"
    )
    named = tuple(_named(record) for record in held.to_dict("records"))
    nearest = ranked.head(TOP).merge(_lacks(run, role), on=HEAD, how="left")
    found = Findings(
        doing=tuple(head for head in named if head["tier"] != "D"),
        helpers=tuple(head for head in named if head["tier"] == "D"),
        best=tuple(_named(record) for record in nearest.to_dict("records")),
        task=tasks.get(role),
        no_task=facts.get("no_task") or "its task was not run (`rolecall ablate`)",
        judged="heads" in run.tables,
        measured="effects" in run.tables,
        together=all_at_once(run, role),
    )
    verdict, sentence = role_sentence(found)
    return RoleStory(
        role=role,
        title=role.replace("_", " "),
        family=str(rows["family"].iloc[0]),
        definition=str(facts.get("definition", "")),
        source=str(facts.get("source", "")),
        kind=str(rows["score_kind"].iloc[0]),
        heads=found.doing,
        helpers=found.helpers,
        sentence=sentence,
        verdict=verdict,
        task=found.task or f"none: {found.no_task}",
        best=found.best,
        together=found.together,
    )


def _named(record: dict[Any, Any]) -> Named:
    plain = {
        str(key): None if value is None or value is pd.NA or value != value else value
        for key, value in record.items()
    }
    return {**plain, "name": head_name(record["layer"], record["head"])}


def _lacks(run: Run, role: str) -> pd.DataFrame:
    """Layer, head and what the head lacks for this role, of those that came closest to it."""
    near = run.table("near_misses")
    if near is None:
        return pd.DataFrame(columns=[*HEAD, "lacks"]).astype({name: int for name in HEAD})
    rows = near[near["role"] == role].rename(columns={"reasons": "lacks"})
    return rows[[*HEAD, "lacks"]]
