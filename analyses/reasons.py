"""A verdict in words and numbers: one sentence that says what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rolecall.analyses.number_text import number, share, times
from rolecall.analyses.tiers import PATTERN, SAYS, Thresholds

# What a role looks at, as a sentence says it; a role from elsewhere looks at "its target".
TARGETS = {
    "previous_token": "the token before",
    "next_token": "the token after",
    "current_token": "its own token",
    "first_token": "the first position",
    "delimiter": "delimiters",
    "bracket": "the opening mark",
    "subject_verb": "the subject",
    "verb_object": "the verb",
    "determiner": "the determiner",
    "adjective": "the adjective",
    "auxiliary": "the auxiliary",
    "coreference": "the antecedent",
    "earlier_mention": "the earlier mention",
    "rare_token": "the rarest word",
    "duplicate_token": "the earlier copy",
    "induction": "what followed the earlier copy",
}
ACCOUNTS = {
    "even": "by chance",
    "nearest": "for the nearest candidate",
    "first": "for the first candidate",
    "same_word": "for the same word",
    "frequency": "for the frequent word",
}
METRICS = {"logit_difference": "logit difference", "loss": "loss (nats)"}


def reason(row: Mapping[str, Any], thresholds: Thresholds, no_task: str = "") -> str:
    """Why this (head, role) has its tier; `row` is one of `judge`'s."""
    if row["tier"] == "D":
        parts = [_effect(row, no_task), f"but no head of this role: {lacking(row, thresholds)}"]
        return "; ".join(parts)
    parts = [_pattern(row), _effect(row, no_task), *_elsewhere(row)]
    if not row["selective"]:
        parts.append(SAYS["selective"])
    if not row["consistent"]:
        parts.append(f"its weights do not copy (rank {number(row['weight'])}, even is 0.50)")
    if row["stability"] == row["stability"]:
        parts.append(f"the label stays in {number(row['stability'])} of resamples")
    return "; ".join(parts)


def lacking(row: Mapping[str, Any], thresholds: Thresholds) -> str:
    """The first rule that the row fails, with its number and what was asked."""
    failed = str(row["failed"]).split()
    for rule in PATTERN:
        if rule.name in failed:
            value = row.get(rule.column)
            if value is None or value != value:
                return f"{rule.name} is not known"
            bound = number(_bound(rule.bound, row, thresholds), digits=rule.digits)
            return SAYS[rule.name].format(
                value=number(float(value), digits=rule.digits), bound=bound
            )
    return "nothing"


def _bound(bound: str | float, row: Mapping[str, Any], thresholds: Thresholds) -> float:
    if bound == "needed":
        return float(row["needed"])
    return float(getattr(thresholds, bound) if isinstance(bound, str) else bound)


def _pattern(row: Mapping[str, Any]) -> str:
    target = TARGETS.get(row["role"], "its target")
    times = round(row["consistency"] * row["n_templates"])
    if row["score_kind"] == "hit":
        seen = f"attends to {target} {number(row['score'])} of the time"
    else:
        seen = f"puts {number(row['score'])} of its attention on {target}"
    simpler = f"{number(row['baseline'])} {account_words(row['baseline_name'])}"
    return f"{seen}, {simpler}, ahead on {times} of {int(row['n_templates'])} templates"


def account_words(name: str | None) -> str:
    """How a baseline is said in a sentence."""
    parts = [part for part in (name or "even").split(" / ") if part]
    return " or ".join(_offset(p) if p.startswith("offset ") else ACCOUNTS.get(p, p) for p in parts)


def _offset(name: str) -> str:
    return f"at the modal offset ({number(float(name.split()[1]), digits=0)})"


def _effect(row: Mapping[str, Any], no_task: str) -> str:
    if row["effect"] == "unknown":
        why = f"no task: {no_task}" if no_task else row["why"]
        return f"effect not decided: {why}"
    unit = METRICS.get(row["metric"], row["metric"])
    low, high = number(row["total_low"]), number(row["total_high"])
    interval = f"{number(row['total'])} [{low}, {high}]"
    on = f"of {row['task']} {unit}"
    how = f"({row['ablation']} ablation, {int(row['n_items'])} items)"
    said = {
        "helps": f"removing it costs {number(row['total'])} {on}{_against(row)} {how}",
        "harms": f"removing it gains {number(-row['total'])} {on}: it works against the task {how}",
        "nothing": f"removing it changes {interval} {on}, shown to be negligible {how}",
        "unclear": f"its effect is not decided by {int(row['n_items'])} items: {interval} {on}",
        "hidden": f"it writes {number(row['direct'])} {on} directly, and later layers make up for "
        f"{share(row['self_repair'])} of that: {interval} in all, surely less than it writes {how}",
    }
    return said[row["effect"]]


def _elsewhere(row: Mapping[str, Any]) -> list[str]:
    """The task that the head matters most to, where it is another than the role's own."""
    task, most = row["most_task"], row["most"]
    if most is None or most != most or task == row["task"]:
        return []
    return [f"it matters most to {task}, which loses {number(most)} without it"]


def _against(row: Mapping[str, Any]) -> str:
    ratio = row["ratio"]
    if ratio != ratio:
        return ""
    if math.isinf(ratio):
        return ", nothing on other tasks or unrelated text"
    damage = row["generic_damage"]
    worst = damage == damage and not row["others"] > damage
    return (
        f", {times(ratio)} its {'damage to unrelated text' if worst else 'effect on other tasks'}"
    )
