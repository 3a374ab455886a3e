"""The attention examples that a scan left in the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolecall.analyses.tables import read_json


def stored_samples(folder: Path, role: str) -> list[dict[str, Any]]:
    """The examples of `attention/<role>.json`; none where there is no such file.

    Raises:
        ValueError: The file is not what a scan writes.
    """
    path = folder / "attention" / f"{role}.json"
    if not path.is_file():
        return []
    examples = read_json(path).get("examples")
    if not isinstance(examples, list):
        raise ValueError(f"{path} holds no examples; run `rolecall scan` again")
    return [{**example, "role": role} for example in examples]


def samples_of_head(folder: Path, name: str) -> list[dict[str, Any]]:
    """The stored examples on which this head is to be seen, of any role."""
    paths = sorted((folder / "attention").glob("*.json"))
    stored = [example for path in paths for example in stored_samples(folder, path.stem)]
    return [example for example in stored if example.get("head") == name]
