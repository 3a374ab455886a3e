"""The attention examples that a scan left in the run folder; damaged ones are named, not shown."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolecall.analyses.tables import read_json
from rolecall.reports.attention_view import Seen


def stored_samples(folder: Path, role: str) -> list[dict[str, Any]]:
    """The sound examples of `attention/<role>.json`; none where there is no such file.

    Warns:
        UserWarning: The file or an example in it is not what a scan writes, and is left out.
    """
    path = folder / "attention" / f"{role}.json"
    if not path.is_file():
        return []
    try:
        examples = read_json(path).get("examples")
        if not isinstance(examples, list):
            raise ValueError(f"{path} holds no list of examples")
    except ValueError as error:
        _left_out(str(error))
        return []
    return [{**example, "role": role} for example in _sound(examples, path)]


def samples_of_head(folder: Path, name: str) -> list[dict[str, Any]]:
    """The stored examples on which this head is to be seen, of any role."""
    paths = sorted((folder / "attention").glob("*.json"))
    stored = [example for path in paths for example in stored_samples(folder, path.stem)]
    return [example for example in stored if example["head"] == name]


def require_sample(example: Any) -> dict[str, Any]:
    """The example, as a scan writes it.

    Raises:
        ValueError: It is no object, a part is missing or of another kind, or parts do not fit.
    """
    if not isinstance(example, dict):
        raise ValueError(f"an object is wanted where {example!r:.40} stands")
    Seen.of(example)
    for key in ("raises", "lowers"):
        if key not in example:
            raise ValueError(f"it has no {key!r}")
        tokens = example[key]
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError(f"{key!r} should be a list of tokens, not {tokens!r:.40}")
    return example


def _sound(examples: list[Any], path: Path) -> Iterator[dict[str, Any]]:
    for number, example in enumerate(examples):
        try:
            yield require_sample(example)
        except ValueError as error:
            _left_out(f"{path}: example {number}: {error}")


def _left_out(why: str) -> None:
    text = f"{why}; it is damaged and left out; `rolecall scan` writes it again"
    warnings.warn(text, UserWarning, stacklevel=2)
