"""Each role in a plain sentence: which heads do it, and does the model depend on them?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from rolecall.reports.own_task import own_effects, own_tasks
from rolecall.reports.run import NO_LABEL, Run, head_name, labels_of, significant

TOP = 6


@dataclass(frozen=True)
class RoleStory:
    """What a reader wants to know of a role first.

    Attributes:
        role: Its name.
        title: The name without underscores.
        family, definition, source: From the manifest; empty where it does not say.
        kind: `mass` or `hit`.
        heads: The heads that hold it, leading ones first, each with what is known of it.
        sentence: Which heads do it and whether that matters, in plain words.
        verdict: The same in a word or two: `yes`, `yes, not only here`, `not detected`,
            `not tested`, `no head`, `not judged`.
        task: The task that decides, or why there is none.
        best: The strongest heads whether or not they hold the role.
    """

    role: str
    title: str
    family: str
    definition: str
    source: str
    kind: str
    heads: tuple[dict[str, Any], ...]
    sentence: str
    verdict: str
    task: str
    best: tuple[dict[str, Any], ...]

    @property
    def tiers(self) -> dict[str, str]:
        """Head → tier, for the heads that hold the role."""
        return {head["name"]: head["tier"] for head in self.heads}


def role_stories(run: Run) -> tuple[RoleStory, ...]:
    """A story for each role of the scores, in the order of families and names."""
    scores = run.table("scores")
    if scores is None:
        return ()
    joined = scores.merge(
        own_effects(run).drop(columns=["kv_group", "p_value", "p_max", "q_value"], errors="ignore"),
        on=["role", "layer", "head"],
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
    said = f"{named} of {n} heads have a clean label; {n - named} have none."
    if not named:
        return (said,)
    if "effects" not in run.tables:
        return said, "Whether the model depends on them was not measured: no effects in this run."
    tiers = labels.loc[labels["label"] != NO_LABEL, "tier"].value_counts()
    counted = [f"{tiers[tier]} {words} ({tier})" for tier, words in COUNTED if tiers.get(tier)]
    *most, last = counted
    return said, f"Of these, {', '.join(most)}{' and ' * bool(most)}{last}."


COUNTED = (
    ("A", "matter to the model for this role above all"),
    ("B", "matter, but not only for this role"),
    ("C", "show the pattern without a detected effect"),
    ("E", "work against their role"),
)


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
    held = here.merge(ranked, on=["layer", "head"], how="left").assign(
        total=lambda t: t["total"].astype(float), score=lambda t: t["score"].astype(float)
    )
    held = held.sort_values(
        ["tier", "total", "score"], ascending=[True, False, False], kind="stable"
    )
    heads = tuple(_named(record) for record in held.to_dict("records"))
    best = tuple(_named(record) for record in ranked.head(TOP).to_dict("records"))
    task = tasks.get(role)
    verdict, sentence = _said(heads, best, task=task, facts=facts, run=run)
    why = facts.get("no_task") or "its task was not run (`rolecall ablate`)"
    return RoleStory(
        role=role,
        title=role.replace("_", " "),
        family=str(rows["family"].iloc[0]),
        definition=str(facts.get("definition", "")),
        source=str(facts.get("source", "")),
        kind=str(rows["score_kind"].iloc[0]),
        heads=heads,
        sentence=sentence,
        verdict=verdict,
        task=task or f"none: {why}",
        best=best,
    )


def _named(record: dict[Any, Any]) -> dict[str, Any]:
    plain = {
        str(key): None if value is None or value is pd.NA or value != value else value
        for key, value in record.items()
    }
    return {**plain, "name": head_name(record["layer"], record["head"])}


def _said(
    heads: tuple[dict[str, Any], ...],
    best: tuple[dict[str, Any], ...],
    *,
    task: str | None,
    facts: dict[str, Any],
    run: Run,
) -> tuple[str, str]:
    """The verdict in a word and the sentence."""
    doing = [head for head in heads if head["tier"] in ("A", "B", "C", "E", "pattern only")]
    causal = [head for head in doing if head["tier"] in ("A", "B")]
    if not doing:
        return "no head", _nobody(best, judged="heads" in run.tables)
    who = _names(doing)
    if causal:
        lead = max(causal, key=lambda head: head["total"] or 0.0)
        sure = any(head["tier"] == "A" for head in causal)
        word = "yes" if sure else "yes, not only here"
        only = "" if sure else ", though not more than other tasks do"
        return word, f"{who} It matters{only}: {_cost(lead)}."
    if doing[0]["tier"] == "pattern only":
        return "not judged", f"{who} Their attention stands out; no verdict was worked out."
    if "effects" not in run.tables:
        return "not tested", f"{who} Whether it matters was not measured: no effects in this run."
    if task is None:
        why = facts.get("no_task") or "its task was not run"
        return "not tested", f"{who} Whether it matters was not tested: {why}."
    if all(head.get("total") is None for head in doing):
        return "not tested", f"{who} Whether it matters is unknown: not ablated on {task}."
    if any(head.get("usable") is False for head in doing):
        return "not tested", f"{who} The model does not do the task {task}, so it cannot be told."
    return "not detected", f"{who} No effect of removing one was detected on {task}."


def _nobody(best: tuple[dict[str, Any], ...], *, judged: bool) -> str:
    if not best:
        return "No head was scored."
    top = best[0]
    by = f", against {top['chance']:.2f} by chance" if top.get("chance") is not None else ""
    if top.get("baseline") is not None:
        by += f" and {top['baseline']:.2f} by the best simpler account"
    nobody = "No head has a clean label" if judged else "No head's attention stands out"
    return f"{nobody}. The nearest is {top['name']}, score {top['score']:.2f}{by}."


def _names(heads: list[dict[str, Any]]) -> str:
    names = [head["name"] for head in heads]
    if len(names) > 4:
        return f"{len(names)} heads, led by {', '.join(names[:3])}."
    return f"{_count(len(names), 'head')}: {', '.join(names)}."


def _cost(head: dict[str, Any]) -> str:
    total, task = head["total"], head.get("task")
    if total is None or not task:
        return f"removing {head['name']} hurts its task"
    low, high = head.get("total_low"), head.get("total_high")
    within = "" if low is None or high is None else f" (95 % {low:.2f} to {high:.2f})"
    what = "the loss" if head.get("metric") == "loss" else "the logit difference"
    verb = "raises" if head.get("metric") == "loss" else "lowers"
    return f"removing {head['name']} {verb} {what} on {task} by {total:.2f}{within}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
