"""Tasks that people bring: one JSON object a line (design §7).

    {"prompt": "The keys to the cabinet", "answer": " are", "foil": " is", "twin": "...",
     "template": "..."}

`twin` and `template` may be left out. A line that cannot be used is named and left out; the rest
goes on.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.analyses.models import Model
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Item, Task
from rolecall.probes.choice import asked, inner

REQUIRED = ("prompt", "answer", "foil")
KNOWN = (*REQUIRED, "twin", "template")


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
    items: list[Item] = []
    problems: list[str] = []
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            items.append(_item(_text(line), model, default=f"line {number}"))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    if not items:
        why = "; ".join(problems[:3]) + f" … ({len(problems)} lines)" * (len(problems) > 3)
        raise ValueError(why or f"{path} is empty; it must hold one JSON object a line")
    dropped = {"line cannot be used": len(problems)} if problems else {}
    return TaskFile(Task(path.stem, "logit_difference", tuple(items), dropped), tuple(problems))


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().removeprefix(BOM_UTF8).split(b"\n")
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from None


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = line[error.start]
        raise ValueError(f"no UTF-8 text: byte {wrong:#04x} at column {error.start + 1}") from None


def _item(line: str, model: Model, *, default: str) -> Item:
    said = _parse(line)
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


def _parse(line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(said, dict):
        raise ValueError(f"an object is needed, not a {type(said).__name__}")
    unknown = sorted(set(said) - set(KNOWN))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; keys are {', '.join(KNOWN)}")
    for key in REQUIRED:
        if not said.get(key):
            raise ValueError(f"{key!r} is missing; {', '.join(REQUIRED)} are needed")
    for key, value in said.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{key!r} must be text, not {value!r}")
        if any("\ud800" <= letter <= "\udfff" for letter in value or ""):
            raise ValueError(f"{key!r} holds half of a surrogate pair, which is no letter")
    return said


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
