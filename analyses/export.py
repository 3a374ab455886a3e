"""Examples and task items as JSON lines, for recomputing a number without us (design §7)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rolecall.analyses.models import Model
from rolecall.analyses.top_tokens import token_texts
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


def example_lines(crafted: Crafted, model: Model | None = None) -> list[str]:
    """One JSON object an example, its twin, if it has one, right behind it.

    With a model each object has the text of its tokens beside their ids.
    """
    return [
        json.dumps(_example(version, model, twin=number > 0), ensure_ascii=False)
        for example in crafted.examples
        for number, version in enumerate(example.versions)
    ]


def _example(example: Example, model: Model | None, *, twin: bool) -> dict[str, Any]:
    return {
        "token_ids": list(example.token_ids),
        **_text("tokens", example.token_ids, model),
        "twin": twin,
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


def item_lines(task: Task, model: Model | None = None) -> list[str]:
    """One JSON object an item; a loss item has `positions` and no answer.

    With a model each object has the text of its tokens beside their ids.
    """
    lines = []
    for item in task.items:
        line: dict[str, Any] = {
            "token_ids": list(item.token_ids),
            **_text("tokens", item.token_ids, model),
            "template": item.template,
        }
        if item.positions:
            line["positions"] = list(item.positions)
        else:
            line |= {"position": item.position, "answer": item.answer, "foil": item.foil}
            for name in ("answer", "foil"):
                line |= _text(f"{name}_token", [line[name]], model)
        if item.twin_token_ids is not None:
            line["twin_token_ids"] = list(item.twin_token_ids)
            line |= _text("twin_tokens", item.twin_token_ids, model)
        lines.append(json.dumps(line, ensure_ascii=False))
    return lines


def _text(name: str, ids: Sequence[int], model: Model | None) -> dict[str, list[str]]:
    if model is None or model.tokenizer is None:
        return {}
    return {name: token_texts(model, ids)}
