"""The manifest as lines of a name and a text, nested parts with their path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolecall.reports.run import Run


def manifest_lines(run: Run) -> tuple[tuple[str, str], ...]:
    """Model, settings and versions, each value as a reader sees it."""
    found: list[tuple[str, str]] = []
    for part, name in (("model", ""), ("settings", ""), ("versions", "version of ")):
        value = run.manifest.get(part)
        if isinstance(value, Mapping):
            found += [(f"{name}{key}", said) for key, said in _flat(value)]
    return tuple(found)


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        name = f"{above} {key}".strip().replace("_", " ")
        if isinstance(inner, Mapping):
            yield from _flat(inner, name)
        else:
            yield name, _said(inner)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value)) or "none"
    return "–" if value is None else str(value)
