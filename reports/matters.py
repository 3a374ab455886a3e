"""Which heads do each role, and does the model depend on them: a run's tables, role by role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from rolecall.analyses.own_task import DAMAGE, HEAD, primary
from rolecall.reports.all_at_once import all_at_once
from rolecall.reports.own_task import judged_effects, not_done, own_tasks, thresholds_of
from rolecall.reports.role_sentence import Findings, Named, Together, role_sentence
from rolecall.reports.run import NO_LABEL, Run, head_name, labels_of, significant
from rolecall.reports.standing import counted, standings

TOP = 6
SAID = ["task", "total", "total_low", "total_high", "ratio"]
"""What verdicts say of an effect: all that is known of it where the effects are gone."""


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
            `yes, weights disagree`, `not selective`, `works against it`, `not detected`,
            `not tested`, `no head`, `not judged`.
        task: The task that decides, or why there is none.
        cannot: How the model fares at the task, if it was not shown to do it.
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
    cannot: str
    best: tuple[Named, ...]
    together: Together | None

    @property
    def tested(self) -> bool:
        """Whether any head's effect on its task is known."""
        shown = (*(self.heads or self.best), *self.helpers)
        return any(head.get("total") is not None for head in shown)

    @property
    def tiers(self) -> dict[str, str]:
        """Head → tier, for the heads that hold the role and its helpers."""
        return {head["name"]: head["tier"] for head in (*self.heads, *self.helpers)}


def role_stories(run: Run) -> tuple[RoleStory, ...]:
    """A story for each role of the scores, in the order of families and names."""
    scores = run.table("scores")
    if scores is None:
        return ()
    known = Known(
        rows=_joined(run, scores),
        verdicts=verdicts_of(run),
        tasks=own_tasks(run),
        cannot=not_done(run),
    )
    roles = scores[["family", "role"]].drop_duplicates().sort_values(["family", "role"])
    return tuple(_story(run, role, known) for role in roles["role"])


def headline(run: Run) -> tuple[str, ...]:
    """What the run found, in two or three plain sentences."""
    if "scores" not in run.tables and "heads" not in run.tables:
        return _unscored(run)
    labels = labels_of(run)
    n, named = len(labels), int((labels["label"] != NO_LABEL).sum())
    if "heads" not in run.tables:
        one = named == 1
        return (
            f"In {named} of {n} heads attention stands out for some role.",
            f"No verdicts were worked out in this run, so {'this' if one else 'none of these'} is "
            f"{'not a label' if one else 'a label'} yet.",
        )
    none = n - named
    said = [
        f"{named} of {n} heads {_have(named)} a clean label; the other {none} {_have(none)} none."
    ]
    if "effects" not in run.tables and not labels["tier"].isin(["A", "B", "D", "E"]).any():
        said.append("Whether the model depends on them was not measured: no effects in this run.")
        return tuple(said)
    found = standings(labels, verdicts_of(run))
    said += [f"Of those with a label, {counted(found)}."] if found else []
    helping = int(((labels["label"] == NO_LABEL) & (labels["tier"] == "D")).sum())
    needs = "is" if helping == 1 else "are"
    if helping:
        said.append(
            f"Of those without, {helping} {needs} needed by some task without the pattern of its "
            "role (D)."
        )
    return tuple(said)


def _unscored(run: Run) -> tuple[str, ...]:
    """What can be said where nobody looked at attention."""
    effects = run.table("effects")
    if effects is None or effects.empty:
        return ("This run has neither scores nor effects, so nothing is known of what heads do.",)
    rows = primary(effects)
    heads, tasks = len(rows[HEAD].drop_duplicates()), sorted(set(rows["task"]) - {DAMAGE})
    return (
        f"The effect of removing each of {heads} heads was measured on {len(tasks)} "
        f"task{'s' * (len(tasks) != 1)}.",
        "Where they look was not scored in this run, so no head has a role.",
    )


def _have(n: int) -> str:
    return "has" if n == 1 else "have"


def verdicts_of(run: Run) -> pd.DataFrame:
    """Role, layer, head, tier, reasons, `SAID` and effect of every head with a role or a helper's.

    The effect is what the verdict says; of a table without it, what the tier or the effects say.
    """
    columns = ["role", *HEAD, "tier", "reasons", *SAID]
    rows = run.table("verdicts")
    if rows is None:
        long = labels_of(run).explode("roles").rename(columns={"roles": "role"})
        rows = long.dropna(subset="role").assign(reasons="")
    rows = rows.reindex(columns=[*columns, "effect"])
    implied = rows["tier"].map({"A": "helps", "B": "helps", "D": "helps", "E": "harms"})
    rows["effect"] = rows["effect"].astype(object).fillna(implied)
    if rows["effect"].notna().all() or "scores" not in run.tables:
        return rows
    worked = judged_effects(run)[["role", *HEAD, "effect"]].rename(columns={"effect": "worked"})
    rows = rows.merge(worked, on=["role", *HEAD], how="left")
    return rows.assign(effect=rows["effect"].fillna(rows["worked"])).drop(columns="worked")


@dataclass(frozen=True)
class Known:
    """A run's tables as every role's story needs them.

    Attributes:
        rows: The scores with each head's effect on the role's own task.
        verdicts: As `verdicts_of` gives them.
        tasks: Role → the task that was run.
        cannot: Task → how the model fares at it, where it was not shown to do it.
    """

    rows: pd.DataFrame
    verdicts: pd.DataFrame
    tasks: dict[str, str]
    cannot: dict[str, str]


def _joined(run: Run, scores: pd.DataFrame) -> pd.DataFrame:
    worked = judged_effects(run)
    new = [c for c in worked if c not in scores.columns and c not in ("pattern", "effect")]
    joined = pd.concat([scores.reset_index(drop=True), worked[new]], axis=1)
    return joined.assign(sure=significant(joined))


def _story(run: Run, role: str, known: Known) -> RoleStory:
    facts = run.manifest.get("roles", {}).get(role, {})
    rows = known.rows[known.rows["role"] == role]
    here = known.verdicts[known.verdicts["role"] == role].drop(columns="role")
    ranked = rows.sort_values(["sure", "score"], ascending=False, kind="stable")
    held = _with_said(here.drop(columns=SAID).merge(ranked, on=HEAD, how="left"), here)
    held = held.assign(
        total=lambda t: t["total"].astype(float), score=lambda t: t["score"].astype(float)
    )
    held = held.sort_values(
        ["tier", "total", "score"], ascending=[True, False, False], kind="stable"
    )
    named = tuple(_named(record) for record in held.to_dict("records"))
    nearest = ranked.head(TOP).merge(_lacks(run, role), on=HEAD, how="left")
    nearest = nearest.merge(here[[*HEAD, "tier"]], on=HEAD, how="left")
    helpers = tuple(head for head in named if head["tier"] == "D")
    task = known.tasks.get(role)
    found = Findings(
        doing=tuple(head for head in named if head["tier"] != "D"),
        helpers=helpers,
        unsure=_unsure(helpers, rows, here),
        best=tuple(_named(record) for record in nearest.to_dict("records")),
        task=task,
        no_task=facts.get("no_task") or "its task was not run (`rolecall ablate`)",
        cannot=known.cannot.get(task or "", ""),
        judged="heads" in run.tables,
        measured="effects" in run.tables or bool(here["total"].notna().any()),
        asked=thresholds_of(run),
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
        cannot=found.cannot,
        best=found.best,
        together=found.together,
    )


def _with_said(held: pd.DataFrame, here: pd.DataFrame) -> pd.DataFrame:
    """The rows with what the verdicts say of each effect where nothing else says it."""
    return held.combine_first(here[SAID].set_axis(held.index).astype(object))


def _unsure(
    helpers: tuple[Named, ...], rows: pd.DataFrame, here: pd.DataFrame
) -> tuple[Named, ...]:
    """Heads that are no helpers, though their effect is no smaller than that of one."""
    totals = [head["total"] for head in helpers if head["total"] is not None]
    if not totals:
        return ()
    held, least = pd.MultiIndex.from_frame(here[HEAD]), min(totals)
    rest = rows[~pd.MultiIndex.from_frame(rows[HEAD]).isin(held) & (rows["total"] >= least)]
    rest = rest.sort_values("total", ascending=False, kind="stable").head(3)
    return tuple(_named(record) for record in rest.to_dict("records"))


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
