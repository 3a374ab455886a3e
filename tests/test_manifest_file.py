"""A manifest that is partial or damaged: what is absent is absent, what is damaged is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rolecall.analyses.manifest_file import read_manifest
from rolecall.reports.cli import cli
from rolecall.reports.page import report_html
from rolecall.reports.run import read_run
from tests.run_folders import manifest, write_run

WHOLE = manifest((5, 8), "a model")
WRONG: dict[type, Any] = {dict: "x", str: 7, int: "7", float: "much", list: "x"}
READERS = (
    ("table", "roles"),
    ("table", "heads"),
    ("head", "L0H1"),
)


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the path to everything in an object, itself apart."""
    for key, item in value.items() if isinstance(value, dict) else ():
        yield (*path, key)
        yield from places(item, (*path, key))


def without(path: tuple[str, ...], *, put: Any = None, drop: bool = False) -> dict[str, Any]:
    """The whole manifest with another value at one place, or none."""
    whole = deepcopy(WHOLE)
    part = whole
    for key in path[:-1]:
        part = part[key]
    if drop:
        del part[path[-1]]
    else:
        part[path[-1]] = put
    return whole


def written(folder: Path, value: Any) -> Path:
    (folder / "manifest.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def test_a_whole_manifest_is_read_as_it_stands(tmp_path: Path):
    assert read_manifest(written(tmp_path, WHOLE)) == WHOLE


@pytest.mark.parametrize("path", [p for p in places(WHOLE) if len(p) < 3], ids=".".join)
def test_what_is_null_is_as_good_as_absent(tmp_path: Path, path: tuple[str, ...]):
    null = read_manifest(written(tmp_path, without(path, put=None)))
    absent = read_manifest(written(tmp_path, without(path, drop=True)))
    for key in path[:-1]:
        null, absent = null[key], absent[key]
    assert null.get(path[-1]) is None
    assert path[-1] not in absent
    assert {k: v for k, v in null.items() if k != path[-1]} == absent


@pytest.mark.parametrize("part", ["model", "settings", "roles", "tasks"])
@pytest.mark.parametrize("wrong", ["x", 3, [], [1], True])
def test_a_part_of_the_wrong_kind_is_named(tmp_path: Path, part: str, wrong: Any):
    with pytest.raises(ValueError, match=rf"manifest.json: {part} should be an object, not"):
        read_manifest(written(tmp_path, without((part,), put=wrong)))


@pytest.mark.parametrize(
    ("path", "wrong", "said"),
    [
        (("model", "n_layers"), "4", "model.n_layers should be a whole number, not '4'"),
        (("model", "n_layers"), True, "model.n_layers should be a whole number, not True"),
        (("model", "name"), ["a"], r"model.name should be text, not \['a'\]"),
        (("roles", "induction"), "x", "roles.induction should be an object"),
        (("roles", "induction", "dropped"), [], "roles.induction.dropped should be an object"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(
    tmp_path: Path, path: tuple[str, ...], wrong: Any, said: str
):
    with pytest.raises(ValueError, match=said):
        read_manifest(written(tmp_path, without(path, put=wrong)))


@pytest.mark.parametrize("command", READERS, ids=" ".join)
@pytest.mark.parametrize(
    "value", [{}, *[without((k,), drop=True) for k in WHOLE]], ids=lambda v: "+".join(v) or "empty"
)
def test_reports_read_a_run_whose_manifest_says_little(
    tmp_path: Path, command: tuple[str, ...], value: Any
):
    folder = written(write_run(tmp_path), value)
    done = CliRunner().invoke(cli, [command[0], str(folder), *command[1:]])
    assert done.exit_code == 0, done.output
    assert report_html(read_run(folder))


@pytest.mark.parametrize("command", [*READERS, ("report",), ("verdict",)], ids=" ".join)
@pytest.mark.parametrize("part", ["model", "roles"])
def test_reports_refuse_a_damaged_manifest(tmp_path: Path, command: tuple[str, ...], part: str):
    folder = written(write_run(tmp_path), without((part,), put=[1]))
    done = CliRunner().invoke(cli, [command[0], str(folder), *command[1:]])
    assert done.exit_code != 0
    assert f"{part} should be an object" in str(done.output) + str(done.exception)
