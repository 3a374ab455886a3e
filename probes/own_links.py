"""People's own links, from JSON lines (design §7): one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Probe
from rolecall.probes.text import Span, TextExample, TextLink, aligned


def link_probe(path: str | Path) -> Probe:
    """A role made of the links of a JSON-lines file, named after the file.

    A line is `{"text": "...", "query": [start, end], "key": [[start, end], ...]}` with optional
    `rivals` (a list like `key`) and `template`; character spans are half open. Lines that follow
    one another with the same text and template are one example. Without a template each text is
    its own.

    Raises:
        ValueError: The file cannot be read, is empty, or a line is wrong; file and line are named.
    """
    file = Path(path)
    examples = _examples(file)

    def dataset(aligner: Aligner, *, n: int, seed: int) -> Crafted:
        """Attends from the query of each line to its key."""
        chosen = examples if n >= len(examples) else Random(seed).sample(examples, n)
        return aligned(aligner, chosen)

    return Probe(
        name=file.stem,
        family="own",
        definition=f"Attends from query to key as {file.name} marks them.",
        source=file.name,
        dataset=dataset,
        score_kind="hit",
        accounts=("offset", "nearest", "first", "same_word"),
        no_task="the file has links; give a file of tasks beside it",
    )


def _examples(file: Path) -> list[TextExample]:
    grouped: list[tuple[str, str, list[TextLink]]] = []
    for place, row in _rows(file, {"text", "query", "key"}, {"rivals", "template"}):
        text, template = _string(place, row, "text"), _template(place, row)
        link = TextLink(
            query=_span(place, row["query"], "query", text),
            target=_spans(place, row["key"], "key", text),
            rivals=tuple((s,) for s in _spans(place, row.get("rivals") or [], "rivals", text)),
        )
        if not link.target:
            raise ValueError(f"{place}: 'key' is empty; give at least one [start, end]")
        if grouped and grouped[-1][:2] == (text, template):
            grouped[-1][2].append(link)
        else:
            grouped.append((text, template, [link]))
    return [TextExample(text, template, tuple(links)) for text, template, links in grouped]


def _rows(file: Path, needed: set[str], optional: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each object with its place, `FILE, line N`."""
    try:
        # utf-8-sig: editors on Windows put a byte order mark first.
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read as UTF-8 text: {error}") from None
    found = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{file}, line {number}"
        row = _object(place, line)
        if missing := sorted(needed - set(row)):
            raise ValueError(f"{place}: {', '.join(missing)} missing; a line has {sorted(needed)}")
        if unknown := sorted(set(row) - needed - optional):
            allowed = ", ".join(sorted(needed | optional))
            raise ValueError(f"{place}: unknown field {unknown[0]!r}; known: {allowed}")
        found += 1
        yield place, row
    if not found:
        raise ValueError(f"{file} is empty; it should have one JSON object a line")


def _object(place: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: not JSON ({error.msg} at character {error.pos + 1})") from None
    if not isinstance(row, dict):
        raise ValueError(f"{place}: an object in braces is wanted, not {type(row).__name__}")
    return row


def _string(place: str, row: Mapping[str, Any], field: str) -> str:
    value = row[field]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{place}: {field!r} should be text, not {value!r}")
    return value


def _template(place: str, row: Mapping[str, Any]) -> str:
    # By default the line's own place: no two texts are taken for one template unawares.
    return _string(place, row, "template") if "template" in row else place.rpartition(", ")[2]


def _spans(place: str, value: Any, field: str, text: str) -> tuple[Span, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{place}: {field!r} should be a list of [start, end], not {value!r}")
    return tuple(_span(place, one, field, text) for one in value)


def _span(place: str, value: Any, field: str, text: str) -> Span:
    whole = isinstance(value, list) and len(value) == 2 and all(type(x) is int for x in value)
    if not whole:
        raise ValueError(f"{place}: {field!r} should be [start, end] in characters, not {value!r}")
    start, end = value
    if not 0 <= start < end <= len(text):
        raise ValueError(
            f"{place}: {field!r} is [{start}, {end}], which is not within the text of "
            f"{len(text)} characters"
        )
    return start, end
