"""One role in a plain sentence: which heads do it, and does the model depend on them?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rolecall.analyses.number_text import interval, number, p_text, times
from rolecall.analyses.tiers import Thresholds
from rolecall.reports.standing import standing

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
        unsure: Heads without the pattern whose effect is larger than a helper's, but not sure.
        best: The strongest heads, whether or not they hold it.
        task: The task that decides, or None.
        no_task: Why there is none.
        cannot: How the model fares at the task, if it was not shown to do it.
        judged: Verdicts were worked out.
        measured: Effects were measured.
        asked: What the verdicts asked for.
        together: What removing all its heads at once does, if that was tried.
    """

    doing: tuple[Named, ...]
    helpers: tuple[Named, ...]
    best: tuple[Named, ...]
    task: str | None
    no_task: str
    judged: bool
    measured: bool
    unsure: tuple[Named, ...] = ()
    cannot: str = ""
    asked: Thresholds = field(default_factory=Thresholds)
    together: Together | None = None


def role_sentence(found: Findings) -> tuple[str, str]:
    """The verdict in a word or two, and the sentences."""
    if not found.doing:
        said = (_nobody(found), _cannot(found), _helped(found))
        return "no head", " ".join(filter(None, said))
    verdict, sentence = _matters(found)
    said = (_names(found.doing), sentence, _helped(found))
    return verdict, " ".join(filter(None, said))


def _matters(found: Findings) -> tuple[str, str]:
    causal = [head for head in found.doing if head["tier"] in ("A", "B")]
    if causal:
        lead = max(causal, key=lambda head: (head["tier"] == "A", head["total"] or 0.0))
        word, but = ("", "") if lead["tier"] == "A" else _shortfall(lead, found.asked)
        ratio = lead.get("ratio")
        over = f", {times(ratio)} its effect elsewhere" if ratio is not None else ""
        sentence = f"It matters{but}: {_cost(lead)}{over}{_also_at_once(found)}."
        return f"yes{word}", sentence
    several = len(found.doing) > 1
    if not found.judged:
        whose = "Their" if several else "Its"
        return "not judged", f"{whose} attention stands out; no verdict was worked out."
    by = {}
    for head in found.doing:
        by.setdefault(standing(head["tier"], head.get("effect")), []).append(head)
    if "E" in by:
        lead = min(by["E"], key=lambda head: head["total"] or 0.0)
        return "works against it", f"The task is done better without: {_gain(lead)}."
    if "unselective" in by:
        lead = max(by["unselective"], key=lambda head: head["total"] or 0.0)
        doubt = "its attention is not shown to prefer the right key to its rivals"
        return "not selective", f"There is an effect ({_cost(lead)}), but {doubt}."
    if "undetected" not in by:
        return "not tested", _untested(found, "they matter" if several else "it matters")
    alone = f"No effect of removing {'one' if several else 'it'} was detected on {found.task}"
    untried = [head["name"] for head in by.get("untested", ())]
    alone += f" (not tested: {', '.join(untried)})" if untried else ""
    clear = found.together is not None and found.together.clear and several
    return ("yes, together" if clear else "not detected"), f"{alone}{_also_at_once(found)}."


def _shortfall(head: Named, asked: Thresholds) -> tuple[str, str]:
    """Why an effect is not the role's own above all (tier B), in a word and in numbers."""
    ratio, low = head.get("ratio"), head.get("ratio_low")
    here = ", not only here"
    if ratio is None:
        return here, ", though on nothing else was it measured"
    if not ratio > asked.min_ratio:
        return (
            here,
            f", but not for this task above all (more than {times(asked.min_ratio)} is asked)",
        )
    if low is None or not low > 1:
        end = "is not known" if low is None else f"reaches down to {times(low)}"
        return (
            here,
            f", but not surely for this task above all (the ratio's interval {end}, 1 × is asked)",
        )
    return ", weights disagree", ", but its weights do not do what the role asks"


def _untested(found: Findings, matters: str) -> str:
    if not found.measured:
        return f"Whether {matters} was not measured: no effects in this run."
    if found.task is None:
        return f"Whether {matters} was not tested: {found.no_task}."
    return _cannot(found) or f"Whether {matters} is unknown: not ablated on {found.task}."


def _cannot(found: Findings) -> str:
    if not found.cannot:
        return ""
    return (
        f"The model is not shown to do the task {found.task} ({found.cannot}), so an effect on it "
        "tells nothing."
    )


def _also_at_once(found: Findings) -> str:
    """What removing all heads of the role does, where there are several."""
    together = found.together
    if together is None or len(found.doing) < 2 or found.cannot:
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
    if top.get("total") is not None and top.get("task") and not found.cannot:
        effect = number(top["total"], signed=True)
        said += f", effect on {top['task']} {effect}{_chance(top)}"
    lacks = f"; it lacks: {top['lacks']}" if top.get("lacks") else ""
    nobody = (
        "No head has a clean label for it" if found.judged else "No head's attention stands out"
    )
    return f"{nobody}. The nearest is {top['name']}: {said}{lacks}."


def _chance(head: Named) -> str:
    return "" if head.get("p") is None else f" (p {_p(head)})"


def _p(head: Named) -> str:
    text = p_text(head.get("p"))
    return text if text.startswith("<") else f"= {text}"


def _helped(found: Findings) -> str:
    """The heads of tier D, with what they rest on, and the rule by which others are not named."""
    if not found.helpers:
        return ""
    ranked = sorted(found.helpers, key=lambda head: -(head["total"] or 0.0))
    more = f" and {len(ranked) - 3} more" if len(ranked) > 3 else ""
    task = ranked[0].get("task") or found.task
    bound = number(found.asked.alpha)
    named = ", ".join([_helper(ranked[0], " its effect elsewhere"), *map(_helper, ranked[1:3])])
    said = (
        f"The task {task} does need {named}{more}, whose attention falls short of this "
        f"role's rules (tier D: p < {bound} over all heads and tasks)."
    )
    if found.unsure:
        said += f" As large, but not sure by that rule: {', '.join(map(_helper, found.unsure))}."
    return said


def _helper(head: Named, of: str = "") -> str:
    parts = [number(head["total"], signed=True)]
    parts += [f"p {_p(head)}"] if head.get("p") is not None else []
    parts += [f"{times(head['ratio'])}{of}"] if head.get("ratio") is not None else []
    return f"{head['name']} ({', '.join(parts)})"


def _names(heads: tuple[Named, ...]) -> str:
    names = [head["name"] for head in heads]
    if len(names) > NAMED:
        return f"{len(names)} heads, led by {', '.join(names[:3])}."
    return f"{len(names)} head{'s' * (len(names) > 1)}: {', '.join(names)}."


COSTS = {"loss": "raises the loss on", "logit_difference": "lowers the logit difference on"}
GAINS = {"loss": "lowers the loss on", "logit_difference": "raises the logit difference on"}


def _cost(head: Named) -> str:
    what = COSTS.get(head.get("metric") or "", "hurts")
    return _moved(head, what) or f"removing {head['name']} hurts its task"


def _gain(head: Named) -> str:
    what = GAINS.get(head.get("metric") or "", "helps")
    return _moved(head, what) or f"removing {head['name']} helps its task"


def _moved(head: Named, what: str) -> str:
    total, task = head["total"], head.get("task")
    if total is None or not task:
        return ""
    low, high = head.get("total_low"), head.get("total_high")
    ends = (low, high) if total >= 0 or low is None or high is None else (-high, -low)
    within = "" if low is None or high is None else f" (95 % {interval(*ends)})"
    return f"removing {head['name']} {what} {task} by {number(abs(total))}{within}"
