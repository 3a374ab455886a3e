"""One role in a plain sentence: which heads do it, and does the model depend on them?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rolecall.analyses.number_text import interval, number

Named = dict[str, Any]
"""What is known of a head for a role, with its `name`."""

NAMED = 4
"""So many heads are all named; of more, the first three."""


@dataclass(frozen=True)
class Together:
    """What it does to a role's task to remove all heads of the role at once.

    Attributes:
        removed: How many that are.
        metric: `loss` or `logit_difference`.
        clean, without: The metric with all heads, and without them.
        random: The metric without as many heads drawn at random; None if there is none.
        clear: It is worse than without any of the random ones, intervals and all.
    """

    removed: int
    metric: str
    clean: float
    without: float
    random: float | None
    clear: bool


@dataclass(frozen=True)
class Findings:
    """What a run says of one role.

    Attributes:
        doing: The heads that hold it, leading ones first.
        helpers: Heads without the pattern that its task needs all the same.
        best: The strongest heads, whether or not they hold it.
        task: The task that decides, or None.
        no_task: Why there is none.
        judged: Verdicts were worked out.
        measured: Effects were measured.
        together: What removing all its heads at once does, if that was tried.
    """

    doing: tuple[Named, ...]
    helpers: tuple[Named, ...]
    best: tuple[Named, ...]
    task: str | None
    no_task: str
    judged: bool
    measured: bool
    together: Together | None = None


def role_sentence(found: Findings) -> tuple[str, str]:
    """The verdict in a word or two, and the sentences."""
    if not found.doing:
        return "no head", " ".join(filter(None, (_nobody(found), _helped(found))))
    verdict, sentence = _matters(found)
    return verdict, f"{_names(found.doing)} {sentence}"


def _matters(found: Findings) -> tuple[str, str]:
    causal = [head for head in found.doing if head["tier"] in ("A", "B")]
    if causal:
        lead = max(causal, key=lambda head: head["total"] or 0.0)
        sure = any(head["tier"] == "A" for head in causal)
        only = "" if sure else ", though not more than other tasks do"
        word = "yes" if sure else "yes, not only here"
        return word, f"It matters{only}: {_cost(lead)}{_also_at_once(found)}."
    if found.doing[0]["tier"] == "pattern only":
        return "not judged", "Their attention stands out; no verdict was worked out."
    if not found.measured:
        return "not tested", "Whether it matters was not measured: no effects in this run."
    if found.task is None:
        return "not tested", f"Whether it matters was not tested: {found.no_task}."
    if all(head.get("total") is None for head in found.doing):
        return "not tested", f"Whether it matters is unknown: not ablated on {found.task}."
    if any(head.get("usable") is False for head in found.doing):
        return "not tested", f"The model does not do the task {found.task}, so it cannot be told."
    it = "one" if len(found.doing) > 1 else "it"
    alone = f"No effect of removing {it} was detected on {found.task}"
    untried = [head["name"] for head in found.doing if head.get("total") is None]
    alone += f" (not ablated: {', '.join(untried)})" if untried else ""
    clear = found.together is not None and found.together.clear and len(found.doing) > 1
    return ("yes, together" if clear else "not detected"), f"{alone}{_also_at_once(found)}."


def _also_at_once(found: Findings) -> str:
    """What removing all heads of the role does, where there are several."""
    together = found.together
    if together is None or len(found.doing) < 2:
        return ""
    what = "the loss" if together.metric == "loss" else "the logit difference"
    beside = ""
    if together.random is not None:
        beside = f" (as many drawn at random: to {number(together.random)})"
    who = "both" if together.removed == 2 else f"all {together.removed}"
    return (
        f"; removing {who} at once takes {what} from {number(together.clean)} to "
        f"{number(together.without)}{beside}"
    )


def _nobody(found: Findings) -> str:
    if not found.best:
        return "No head was scored."
    top = found.best[0]
    against = [
        f"{number(top[name])} by {words}"
        for name, words in (("chance", "chance"), ("baseline", "the best simpler account"))
        if top.get(name) is not None
    ]
    said = f"score {number(top['score'])}"
    said += f", against {' and '.join(against)}" if against else ""
    if top.get("total") is not None and top.get("task") and top.get("usable") is not False:
        said += f", effect on {top['task']} {number(top['total'], signed=True)}"
    lacks = f"; it lacks: {top['lacks']}" if top.get("lacks") else ""
    nobody = "No head has a clean label" if found.judged else "No head's attention stands out"
    return f"{nobody}. The nearest is {top['name']}: {said}{lacks}."


def _helped(found: Findings) -> str:
    if not found.helpers:
        return ""
    ranked = sorted(found.helpers, key=lambda head: -(head["total"] or 0.0))
    said = [f"{head['name']} ({number(head['total'], signed=True)})" for head in ranked[:3]]
    more = f" and {len(ranked) - 3} more" if len(ranked) > 3 else ""
    task = ranked[0].get("task") or found.task
    return (
        f"The task {task} does need {', '.join(said)}{more}, whose attention is not this role's "
        "(tier D)."
    )


def _names(heads: tuple[Named, ...]) -> str:
    names = [head["name"] for head in heads]
    if len(names) > NAMED:
        return f"{len(names)} heads, led by {', '.join(names[:3])}."
    return f"{len(names)} head{'s' * (len(names) > 1)}: {', '.join(names)}."


def _cost(head: Named) -> str:
    total, task = head["total"], head.get("task")
    if total is None or not task:
        return f"removing {head['name']} hurts its task"
    low, high = head.get("total_low"), head.get("total_high")
    within = "" if low is None or high is None else f" (95 % {interval(low, high)})"
    loss = head.get("metric") == "loss"
    what = "raises the loss" if loss else "lowers the logit difference"
    return f"removing {head['name']} {what} on {task} by {number(total)}{within}"
