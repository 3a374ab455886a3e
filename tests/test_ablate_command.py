"""`rolecall ablate` and `rolecall paths`: what is written, and what a user's mistake looks like."""

import json
from pathlib import Path

import pandas as pd
import pytest

from rolecall.analyses.models import load_model
from rolecall.analyses.task_file import read_tasks
from rolecall.analyses.task_lines import KNOWN
from rolecall.reports.cli import main
from tests import tiny_models

GOOD = {"prompt": "Once upon a time", "answer": ",", "foil": ".", "template": "a"}
LINES = [
    GOOD,
    {
        "prompt": "The dog was sad",
        "answer": ".",
        "foil": ",",
        "twin": "The dog was",
        "template": "b",
    },
    {"prompt": "One day", "answer": " antidisestablishment", "foil": "."},
    {"prompt": "One day", "foil": "."},
    {"prompt": "One day", "answer": ",", "foil": ".", "colour": "red"},
    {"prompt": "One day", "answer": ",", "foil": ","},
    [1, 2],
    {"prompt": "One day", "answer": ",", "foil": ".", "template": "b"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.save("llama", tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def task_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "mine.jsonl"
    text = "".join(json.dumps(line) + "\n" for line in LINES)
    path.write_text(text + "{broken\n\n", encoding="utf-8")
    return path


def rolecall(*arguments):
    """The exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def test_bad_lines_are_named_with_file_and_line_and_the_rest_is_used(tiny, task_file):
    read = read_tasks(task_file, tiny("llama"))
    assert read.task.name == "mine"
    assert len(read.task.items) == 2
    assert read.task.dropped == {"line cannot be used": 7}
    numbers = [problem.removeprefix(f"{task_file}:").split(":")[0] for problem in read.problems]
    assert numbers == ["2", "3", "4", "5", "6", "7", "9"]
    says = (
        "the twin has",
        "it must be one",
        "'answer' is missing",
        "unknown key 'colour'",
        "the same token",
        "not a list",
        "no JSON",
    )
    for problem, part in zip(read.problems, says, strict=True):
        assert part in problem


def test_a_line_that_is_no_utf8_costs_that_line(tiny, tmp_path):
    path = tmp_path / "mine.jsonl"
    good = json.dumps(GOOD).encode()
    path.write_bytes(b"\xef\xbb\xbf" + good + b'\n{"prompt": "caf\xe9"}\n' + good + b"\r\n")
    read = read_tasks(path, tiny("llama"))
    assert len(read.task.items) == 2
    assert read.problems == (f"{path}:2: no UTF-8 text: byte 0xe9 at column 16",)


def test_a_line_with_half_a_letter_costs_that_line(tiny, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "twin": "The \ud800"}) + "\n")
    read = read_tasks(path, tiny("llama"))
    assert len(read.task.items) == 1
    assert read.problems == (
        f"{path}:2: 'twin' holds half of a surrogate pair, which is no letter",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "is empty"), ("\n\n", "is empty"), ("{}\n", r":1: 'prompt' is missing")],
)
def test_a_file_without_a_usable_line_is_an_error(tiny, tmp_path, text, says):
    path = tmp_path / "none.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        read_tasks(path, tiny("llama"))
    with pytest.raises(ValueError, match="there is no file"):
        read_tasks(tmp_path / "absent.jsonl", tiny("llama"))


def test_a_run_writes_the_table_its_items_and_figures(folder, task_file, tmp_path, capsys):
    out = tmp_path / "run"
    code = rolecall("ablate", folder, "--tasks", task_file, "--damage", 3, "--out", out)
    shown = capsys.readouterr()
    assert code == 0
    assert f"{task_file}:2: the twin has" in shown.err
    assert "not interpretable" in shown.out
    table = pd.read_parquet(out / "effects.parquet")
    assert set(table["task"]) == {"mine", "natural_text"}
    # Not every line has a twin, and none that was used: nothing to resample from.
    assert set(table[table["task"] == "mine"]["ablation"]) == {"zero", "mean"}
    assert (out / "effects" / "items" / "mine-zero.parquet").is_file()
    assert (out / "effects" / "screening.csv").is_file()
    assert "One backward pass against the exact effects" in shown.out
    agreement = pd.read_csv(out / "effects" / "screening-agreement.csv")
    assert set(agreement["guess"]) == {"importance", "importance_in_layer", "attribution_zero"}
    assert not (out / "effects" / "blocks" / "mine-zero").exists()
    for kind in ("svg", "pdf", "png", "csv"):
        for name in ("mean-total", "mean-direct", "mean-self_repair", "forest"):
            assert (out / "figures" / f"effects-mine-{name}.{kind}").is_file()
        assert (out / "figures" / f"screening-mine.{kind}").is_file()
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["tasks"]["mine"]["dropped"] == {"line cannot be used": 7}


def test_a_race_and_paths_write_their_tables(folder, task_file, tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ("--tasks", task_file, "--out", out)
    assert rolecall("ablate", folder, *arguments, "--race", "--kind", "zero") == 0
    assert "decided wrongly is at most 5%" in " ".join(capsys.readouterr().out.split())
    rows = pd.read_parquet(out / "race.parquet")
    assert len(rows) == 8
    assert set(rows["alpha"]) == {0.05}
    assert set(rows["band"]) == {0.1}
    assert set(rows["decision"]) <= {"negligible", "helps", "hurts", "undecided"}
    assert rolecall("paths", folder, "--to", "L1H2", *arguments) == 0
    rows = pd.read_parquet(out / "paths-L1H2.parquet")
    assert set(rows["entry"]) == {"q", "k", "v"}
    assert len(rows) == 12
    assert "keys of L1H2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ablate", "--heads", "L9H0"), "2 layers"),
        (("ablate", "--heads", ""), "no head is named"),
        (("ablate", "--group", "query"), "'query' is not 'kv'"),
        (("ablate", "--kind", "median"), "'median' is not one of"),
        (("ablate", "--damage", "-1"), "-1 is not in the range 0<=x"),
        (("ablate", "-n", "0"), "0 is not in the range 1<=x"),
        (("ablate", "--race", "--band", "0"), "not in the range x>0"),
        (("ablate", "--race", "--heads", "L0H0+L1H0"), "span layers cannot race"),
        (("ablate", "--race", "--kind", "resample"), "items without twins"),
        (("paths", "--to", "L9H0"), "2 layers"),
        (("paths", "--to", "L1H0", "--from", "L1H1"), "L1H1 is not before L1H0"),
        (("paths", "--to", "L1H0", "--kind", "resample"), "items without twins"),
        (("ablate", "--task", "inductoin"), "Did you mean 'induction'"),
        (("paths", "--to", "L0H0"), "first layer"),
        (("paths", "--to", "L1H0", "--task", "induction"), "name one task"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(folder, task_file, tmp_path, capsys, arguments, says):
    command, *rest = arguments
    mine = () if rest[:1] == ["--task"] else ("--tasks", task_file)
    assert rolecall(command, folder, *mine, *rest, "--out", tmp_path / "run") == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("rolecall: ")
    assert says in last
    assert not (tmp_path / "run" / "effects.parquet").exists()


def test_the_readme_shows_a_task_file_that_is_read_whole_and_names_every_key(tmp_path):
    text = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- ci: own-task -->")[2].partition("<!-- end -->")[0]
    path = tmp_path / "shown.jsonl"
    path.write_text(shown.partition("<<'END'\n")[2].partition("END\n")[0], encoding="utf-8")
    read = read_tasks(path, load_model())
    assert read.problems == ()
    assert len(read.task.items) == 2
    assert all(item.twin_token_ids for item in read.task.items)
    assert all(f"`{key}`" in text for key in KNOWN)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--band", "0.2"], "--band is a rule of the race; use it with --race"),
        (["--alpha", "0.01"], "--alpha is a rule of the race; use it with --race"),
        (["--race", "--kind", "zero", "--kind", "mean"], "a race takes one --kind, not 2"),
    ],
)
def test_options_that_would_go_unread_are_refused(options, says, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["ablate", *options, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
