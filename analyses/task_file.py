"""Tasks that people bring, for one model: the lines of a file as items that it can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.analyses.models import Model
from rolecall.analyses.task_lines import read_lines
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Item, Task
from rolecall.probes.choice import asked, inner


@dataclass(frozen=True)
class TaskFile:
    """What a task file holds.

    Attributes:
        task: The items that can be used; its name is that of the file.
        problems: What is wrong with each line that cannot, as `file:line: what`.
    """

    task: Task
    problems: tuple[str, ...]


def read_tasks(path: Path, model: Model) -> TaskFile:
    """The task in a file, and which of its lines could not be used.

    Raises:
        ValueError: There is no such file, or no line of it can be used.
    """
    if model.tokenizer is None:
        raise ValueError(f"{path} holds text, and {model.name} has no tokenizer")
    items, problems = read_lines(
        path, lambda said, number: _item(said, model, default=f"line {number}")
    )
    dropped = {"line cannot be used": len(problems)} if problems else {}
    return TaskFile(Task(path.stem, "logit_difference", items, dropped), problems)


def _item(said: Mapping[str, Any], model: Model, *, default: str) -> Item:
    aligner = model.aligner
    prompt = said["prompt"]
    token_ids = _asked(aligner, prompt)
    if len(token_ids) > aligner.max_length:
        raise ValueError(f"{len(token_ids)} tokens are past the context of {aligner.max_length}")
    answer, foil = (_one_token(aligner, prompt, which, said[which]) for which in ("answer", "foil"))
    if answer == foil:
        raise ValueError(f"answer and foil are the same token ({said['answer']!r})")
    twin = _asked(aligner, said["twin"]) if said.get("twin") else None
    if twin is not None and len(twin) != len(token_ids):
        raise ValueError(
            f"the twin has {len(twin)} tokens and the prompt {len(token_ids)}; they must be of "
            "one length (or leave the twin out)"
        )
    return Item(
        token_ids=token_ids,
        # Each line by itself, unless the file says what belongs together.
        template=said.get("template") or default,
        position=len(token_ids) - 1 - (not aligner.causal and aligner.eos is not None),
        answer=answer,
        foil=foil,
        twin_token_ids=twin,
    )


def _asked(aligner: Aligner, prompt: str) -> tuple[int, ...]:
    ids = asked(aligner, inner(aligner, aligner.encode(prompt)))
    if ids is None:
        raise ValueError("the encoder has no mask token at which an answer could be read")
    return ids


def _one_token(aligner: Aligner, prompt: str, which: str, text: str) -> int:
    before = inner(aligner, aligner.encode(prompt))
    after = inner(aligner, aligner.encode(prompt + text))
    more = len(after) - len(before)
    if after[: len(before)] != before or more < 1:
        raise ValueError(
            f"{which} {text!r} changes the tokens of the prompt; begin it where a token begins "
            "(a blank before the word belongs to the answer)"
        )
    if more > 1:
        raise ValueError(f"{which} {text!r} is {more} tokens; it must be one")
    return after[-1]
