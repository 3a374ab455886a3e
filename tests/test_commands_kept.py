"""The commands that made a run: kept as typed, told in the report, and they make it again."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
import pytest

from rolecall.reports.cli import main
from rolecall.reports.commands_kept import as_line, keep, kept_commands
from rolecall.reports.page import report_html, report_markdown
from rolecall.reports.reproduce import commands
from rolecall.reports.run import Run, read_run
from tests.run_folders import manifest, write_run

pytestmark = pytest.mark.filterwarnings("ignore::rolecall.probes.registry.PluginWarning")


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["scan", "--out", "a/b", "-n", "8"], "rolecall scan --out RUN -n 8"),
        (["scan", "--out=a/b"], "rolecall scan --out RUN"),
        (["survey", "it's; rm -rf"], "rolecall survey 'it'\"'\"'s; rm -rf' --out RUN"),
        (["verdict", "a/b/", "--alpha", "0.01"], "rolecall verdict RUN --alpha 0.01"),
    ],
)
def test_a_command_is_a_line_for_a_shell(typed: list[str], line: str) -> None:
    assert as_line(typed, Path("a/b")) == line


def test_a_command_is_kept_once_and_in_order(tmp_path: Path) -> None:
    for typed in (["scan"], ["weights"], ["scan"]):
        keep(typed, tmp_path)
    assert kept_commands(tmp_path) == (
        "rolecall scan --out RUN",
        "rolecall weights --out RUN",
    )


def test_the_report_tells_what_was_typed(tmp_path: Path) -> None:
    write_run(tmp_path)
    keep(["survey", "</pre><img>", "--seed", "3"], tmp_path)
    found = read_run(tmp_path)
    assert commands(found) == (
        "rolecall survey '</pre><img>' --seed 3 --out RUN",
        "rolecall report RUN",
    )
    assert "rolecall survey" in report_markdown(found)
    page = report_html(found)
    assert "--seed 3 --out RUN" in page
    assert "<img>" not in page


def test_what_was_typed_makes_the_same_run_again(tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    words = ("--role", "induction", "-n", "4", "--seed", "7", "--no-figures")
    assert run("scan", *words, "--out", first) == 0
    (line,) = kept_commands(first)
    assert line == f"rolecall scan {' '.join(words)} --out RUN"
    assert run(*[again if word == "RUN" else word for word in line.split()[1:]]) == 0
    one, two = ((folder / "scores.parquet").read_bytes() for folder in (first, again))
    assert one == two
    assert kept_commands(again) == (line,)


def test_a_command_that_fails_is_not_kept(tmp_path: Path) -> None:
    assert run("scan", tmp_path / "no-model", "--out", tmp_path / "run") == 2
    assert kept_commands(tmp_path / "run") == ()


def test_of_a_run_made_in_python_the_settings_are_told(tmp_path: Path) -> None:
    whole = manifest((5, 8), "my model")
    whole["settings"]["weights_seed"] = 4
    whole["settings"]["ablation"] = {
        "kinds": ["mean", "zero"],
        "heads": ["L0H1", "L2H3"],
        "group": None,
        "seed": 2,
        "damage_passages": 12,
    }
    tables = {name: pd.DataFrame() for name in ("scores", "weights", "effects", "heads")}
    said = commands(Run(tmp_path, whole, tables))
    assert said[0] == "rolecall scan 'my model' -n 96 --seed 0 --out RUN"
    assert said[1] == "rolecall weights 'my model' --seed 4 --out RUN"
    assert said[2] == (
        "rolecall ablate 'my model' --kind mean --kind zero --heads L0H1,L2H3 --damage 12 -n 80 "
        "--seed 2 --out RUN"
    )
    assert said[3:] == ("rolecall verdict RUN", "rolecall report RUN")


def test_commands_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "commands.txt").write_bytes(b"rolecall \xff\n")
    with pytest.raises(ValueError, match=r"commands\.txt is not UTF-8 text"):
        kept_commands(tmp_path)


def test_a_path_is_kept_so_that_it_holds_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my model", "induction", "ablate", "32"):
        (tmp_path / name).mkdir()
    (tmp_path / "my tasks.jsonl").write_text("", encoding="utf-8")
    typed = ["ablate", "--no-figures", "my model", "--task", "induction", "-n", "32"]
    for more in (["--tasks", "my tasks.jsonl"], ["--tasks=./my tasks.jsonl"]):
        (_, *words) = shlex.split(as_line([*typed, *more], tmp_path / "run"))
        assert words[:7] == [*typed[:2], str(tmp_path / "my model"), *typed[3:]]
        assert words[-3].rpartition("=")[2] == str(tmp_path / "my tasks.jsonl")


def test_a_hub_id_is_kept_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "some/model" in as_line(["scan", "some/model"], tmp_path / "run").split()
