"""Where a named model is: the embedded one, a folder in Hugging Face form, a GGUF file, the hub.

Imports no torch, so that a wrong name is answered at once.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.data.embedded import embedded_path

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
NAMED_BY = "name a folder in Hugging Face form, a .gguf file or a hub id like org/name"


@dataclass(frozen=True)
class Place:
    """Where transformers finds a model: a folder or hub id, and which GGUF file in it, if any."""

    root: str
    name: str
    gguf: str | None = None
    revision: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments that every `from_pretrained` takes."""
        given = {"gguf_file": self.gguf, "revision": self.revision}
        return {key: value for key, value in given.items() if value is not None}


def find_place(source: str | os.PathLike[str] | None, *, revision: str | None = None) -> Place:
    """Where the model is; None is the one that rolecall carries.

    Raises:
        ValueError: Nothing is there, it is of a kind that cannot be read, a file of the embedded
            model is not as it was made, or a revision is asked of what is not on the hub.
    """
    place = _place(source, revision)
    if revision is not None and place.revision is None:
        shown = "the embedded model" if source is None else source
        raise ValueError(f"revision={revision!r} is for models on the hub, and {shown} is not one")
    return place


def _place(source: str | os.PathLike[str] | None, revision: str | None) -> Place:
    if source is None:
        return Place(root=str(embedded_path()), name="embedded")
    text = os.fspath(source)
    if not text.strip():
        raise ValueError(f"a model's name is empty; {NAMED_BY}")
    path = Path(text).expanduser()
    if path.is_dir():
        _require_folder(path)
        return Place(root=str(path), name=path.resolve().name)
    if path.is_file():
        if path.suffix != ".gguf":
            raise ValueError(f"{text} is a file of unknown format; {NAMED_BY}")
        return Place(root=str(path.resolve().parent), name=path.stem, gguf=path.name)
    if not _HUB_ID.fullmatch(text) or path.suffix == ".gguf":
        raise ValueError(f"no model at {text!r}; {NAMED_BY}")
    return Place(root=text, name=text, revision=revision)


def _require_folder(path: Path) -> None:
    if not (path / "config.json").is_file():
        raise ValueError(f"the folder {path} has no config.json; {NAMED_BY}")
    if not any([*path.glob("*.safetensors"), *path.glob("pytorch_model*.bin")]):
        raise ValueError(f"the folder {path} has no weights (*.safetensors)")
    if not any(path.glob("tokenizer*")) and not (path / "vocab.txt").is_file():
        raise ValueError(f"the folder {path} has no tokenizer (tokenizer.json)")
