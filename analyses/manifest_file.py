"""manifest.json as it is read back: whoever wrote it, its parts are of the kind design §6 names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolecall.analyses.tables import read_json

EACH = "*"
"""Stands for every key of an object."""

_COUNTS = {EACH: int}
_PARTS: dict[str, Any] = {
    "model": {
        **dict.fromkeys(("name", "architecture", "weights_hash", "revision"), str),
        **dict.fromkeys(("n_layers", "n_heads", "n_kv_heads", "d_head", "d_model", "d_vocab"), int),
        "causal": bool,
    },
    "settings": {"n": int, "seed": int, "ablation": {"heads": object}, "verdict": {EACH: float}},
    "versions": {EACH: str},
    "roles": {
        EACH: {
            **dict.fromkeys(("family", "definition", "source", "score_kind", "task"), str),
            **dict.fromkeys(("no_task", "dataset_hash"), str),
            **dict.fromkeys(("used", "templates", "links"), int),
            "dropped": _COUNTS,
        }
    },
    "tasks": {EACH: {"metric": str, "dataset_hash": str, "used": int, "dropped": _COUNTS}},
    "wall_seconds": {EACH: float},
}
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def read_manifest(folder: Path) -> dict[str, Any]:
    """What the folder's manifest.json says; a part that is null is left out, as if absent.

    Raises:
        Lacking: There is none, or it holds no object.
        ValueError: It is no JSON, or a part is not of the kind that design §6 names.
    """
    path = folder / "manifest.json"
    said = read_json(path)
    for place, wanted, value in _wrong(said, _PARTS, ""):
        raise ValueError(f"{path}: {place} should be {wanted}, not {value!r}; it is damaged")
    return _present(said, _PARTS)


def _present(said: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The object without nulls where an object is wanted."""
    kinds = {key: wanted.get(key, wanted.get(EACH)) for key in said}
    parts = {key: kind for key, kind in kinds.items() if isinstance(kind, Mapping)}
    kept = {key: value for key, value in said.items() if key not in parts or value is not None}
    return kept | {key: _present(kept[key], kind) for key, kind in parts.items() if key in kept}


def _wrong(value: Any, wanted: Any, place: str) -> list[tuple[str, str, Any]]:
    """Each place whose value is of another kind: the place, what is wanted, what stands there."""
    if value is None or wanted is object:
        return []
    if not isinstance(wanted, Mapping):
        kinds = (int, float) if wanted is float else wanted
        fits = isinstance(value, kinds) and (wanted is bool or not isinstance(value, bool))
        return [] if fits else [(place, _NAMES[wanted], value)]
    if not isinstance(value, dict):
        return [(place, "an object", value)]
    found = [(key, item, wanted.get(key, wanted.get(EACH))) for key, item in value.items()]
    return [
        line
        for key, item, kind in found
        if kind is not None
        for line in _wrong(item, kind, f"{place}.{key}" if place else key)
    ]
