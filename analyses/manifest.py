"""manifest.json: what was run, on what, with which data, and how long each step took."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rolecall.analyses.manifest_file import read_manifest
from rolecall.analyses.models import Model
from rolecall.analyses.tables import plain, write_json
from rolecall.probes.base import Crafted, Probe, Task

PACKAGES = ("rolecall", "torch", "transformers", "transformer-lens", "numpy", "pandas", "pyarrow")

UNHELD = ("name", "device")
"""What may be said otherwise of one and the same model."""


def digest(value: Any) -> str:
    """A short hash of a value made of dataclasses, lists, strings and numbers."""

    def default(item: Any) -> Any:
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            # Not `asdict`, which copies each number of a data set before it is written.
            return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        return plain(item)

    made = hashlib.sha256()
    # Part by part, for a data set as one text is many times its own size.
    for part in value if isinstance(value, list | tuple) else [value]:
        text = json.dumps(part, default=default, sort_keys=True, ensure_ascii=False)
        made.update(f"{text}\n".encode())
    return made.hexdigest()[:16]


class Manifest:
    """What the manifest will say; `write` joins it to what earlier steps in the folder said.

    Args:
        model: What the manifest says of the model.
        settings: What the step was asked for (`n`, `seed` …).
    """

    def __init__(self, model: dict[str, Any], settings: dict[str, Any]):
        self._model = model
        self._settings = settings
        self._roles: dict[str, Any] = {}
        self._tasks: dict[str, Any] = {}
        self._seconds: dict[str, float] = {}

    @classmethod
    def of(cls, model: Model, **settings: Any) -> Manifest:
        """A manifest for a step on this model."""
        return cls(describe(model), settings)

    def model_digest(self) -> str:
        """A hash of everything about the model that a number depends on."""
        return model_digest(self._model)

    def add_role(self, probe: Probe, data: Crafted) -> str:
        """The data set's hash; notes it, and what was used and dropped, under the role."""
        dataset_hash = digest(data.examples)
        self._roles[probe.name] = {
            "family": probe.family,
            "definition": probe.definition,
            "source": probe.source,
            "score_kind": probe.score_kind,
            "task": getattr(probe.task, "__name__", None),
            "no_task": probe.no_task or None,
            "dataset_hash": dataset_hash,
            "used": len(data.examples),
            "dropped": dict(data.dropped),
            "templates": len({example.template for example in data.examples}),
            "links": sum(len(example.links) for example in data.examples),
        }
        return dataset_hash

    def add_task(self, task: Task) -> None:
        """Nothing; notes a task's items and what was used and dropped of them."""
        self._tasks[task.name] = {
            "metric": task.metric,
            "dataset_hash": digest(task.items),
            "used": len(task.items),
            "dropped": dict(task.dropped),
        }

    def timed(self, step: str, started: float) -> None:
        """Nothing; notes the step's wall time, `started` by `time.perf_counter()`."""
        self._seconds[step] = round(time.perf_counter() - started, 3)

    def write(self, folder: Path) -> dict[str, Any]:
        """The whole manifest, as written.

        Raises:
            ValueError: The folder holds a run of another model.
        """
        before = _earlier(folder, self._model)
        whole = {
            "model": self._model,
            "settings": {**before.get("settings", {}), **self._settings},
            "versions": versions(),
            "roles": {**before.get("roles", {}), **self._roles},
            "tasks": {**before.get("tasks", {}), **self._tasks},
            "wall_seconds": {**before.get("wall_seconds", {}), **self._seconds},
        }
        write_json(folder / "manifest.json", whole)
        return whole


def check_folder(folder: Path, model: Model) -> None:
    """Nothing, if the folder is new or holds a run of this model.

    Raises:
        ValueError: It holds a run of another.
    """
    _earlier(folder, describe(model))


def _earlier(folder: Path, model: dict[str, Any]) -> dict[str, Any]:
    if not (folder / "manifest.json").is_file():
        return {}
    before = read_manifest(folder)
    held = before.get("model", {})
    if model_digest(held) != model_digest(model):
        raise ValueError(
            f"{folder} holds a run of {held.get('name')!r}, and {model.get('name')!r} differs from "
            f"it: {_differences(held, model)}; choose another --out"
        )
    return before


def _differences(held: dict[str, Any], now: dict[str, Any]) -> str:
    """Each thing that the manifest says of both models and not alike: then, and now."""
    keys = sorted({*held, *now} - set(UNHELD))
    said = [
        f"{key.replace('_', ' ')} {held.get(key)} there, {now.get(key)} now"
        for key in keys
        if held.get(key) != now.get(key)
    ]
    return ", ".join(said)


def describe(model: Model) -> dict[str, Any]:
    """What the manifest says of a model."""
    shape = ("n_layers", "n_heads", "n_kv_heads", "d_head", "d_model", "d_vocab", "causal")
    return plain(
        {
            "name": model.name,
            **{name: getattr(model, name) for name in shape},
            "device": str(model.device),
            "dtype": str(model.dtype).removeprefix("torch."),
            **model.facts,
        }
    )


def model_digest(model: dict[str, Any]) -> str:
    """A hash of everything the manifest says of a model, its name and device apart."""
    return digest({key: value for key, value in model.items() if key not in UNHELD})


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
