"""Examples and task items as JSON lines, for recomputing a number without us (design §7)."""

from __future__ import annotations

import json
from typing import Any

from rolecall.analyses.models import Model
from rolecall.probes.base import Crafted, Example, Task
from rolecall.probes.contract import craft
from rolecall.probes.registry import find


def crafted_examples(model: Model, role: str, *, n: int, seed: int) -> Crafted:
    """The examples that a scan of this role with this `n` and seed uses.

    Raises:
        ValueError: The role is unknown, or its examples break the contract.
    """
    (probe,) = find([role])
    return craft(probe, model.aligner, n=n, seed=seed)


def task_of(model: Model, role: str, *, n: int, seed: int) -> Task:
    """The role's task for this model.

    Raises:
        ValueError: The role is unknown, or has no task; the message says why.
    """
    (probe,) = find([role])
    if probe.task is None:
        raise ValueError(f"role {role!r} has no task: {probe.no_task}")
    return probe.task(model.aligner, n=n, seed=seed)


def example_lines(crafted: Crafted) -> list[str]:
    """One JSON object an example, a twin right behind its original."""
    return [json.dumps(_example(v)) for example in crafted.examples for v in example.versions]


def _example(example: Example) -> dict[str, Any]:
    return {
        "token_ids": list(example.token_ids),
        "template": example.template,
        "words": [list(word) for word in example.words],
        "links": [
            {
                "query": list(link.query),
                "target": list(link.target),
                "rivals": [list(rival) for rival in link.rivals],
            }
            for link in example.links
        ],
    }


def item_lines(task: Task) -> list[str]:
    """One JSON object an item; a loss item has `positions` and no answer."""
    lines = []
    for item in task.items:
        line: dict[str, Any] = {"token_ids": list(item.token_ids), "template": item.template}
        if item.positions:
            line["positions"] = list(item.positions)
        else:
            line |= {"position": item.position, "answer": item.answer, "foil": item.foil}
        if item.twin_token_ids is not None:
            line["twin_token_ids"] = list(item.twin_token_ids)
        lines.append(json.dumps(line))
    return lines
