"""What is printed says what the tables say, also where a name looks like rich's markup."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from rich.console import Console

from rolecall.analyses.number_text import share
from rolecall.analyses.verdict import Verdicts
from rolecall.reports.compare_command import compare
from rolecall.reports.head_command import head
from rolecall.reports.paths_command import paths
from rolecall.reports.prune_command import table_of_pruning
from rolecall.reports.top_effects import print_top_effects
from rolecall.reports.top_heads import print_top_heads
from rolecall.reports.verdict_summary import print_verdicts
from tests.run_folders import draw_effects, draw_scores, draw_sensitivity, manifest, write_run

TAGS = "[/bold] [SEP] [red]x"


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=400)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_leading_heads_of_a_model_with_an_odd_name(console: Console) -> None:
    scores = draw_scores((2, 4), seed=0).assign(baseline_name=TAGS)
    whole = manifest((2, 4), TAGS)
    whole["roles"]["induction"] |= {"used": 3, "dropped": {TAGS: 2}}
    print_top_heads(scores, whole, console)
    assert said(console).splitlines()[0].startswith(f"{TAGS}  2 layers")
    assert f"base: {TAGS}" in said(console)
    assert f"2 × {TAGS}" in said(console)


def test_effects_on_a_task_with_an_odd_name(console: Console) -> None:
    effects = draw_effects(draw_scores((2, 4), seed=0), seed=0)
    effects = effects.query("task == 'induction'").assign(
        task=TAGS, per_damage=1.0, kl=0.1, control=None, heads=TAGS
    )
    print_top_effects(effects, [TAGS], [TAGS], console)
    assert said(console).count(TAGS) >= 3


def test_paths_of_a_task_and_to_a_folder_with_odd_names(tmp_path: Path) -> None:
    line = '{"prompt": "The %s", "answer": " is", "foil": " are"}\n'
    (tmp_path / "[red]t.jsonl").write_text("".join(line % word for word in ("cat", "bed", "sea")))
    given = ["--tasks", str(tmp_path / "[red]t.jsonl"), "--out", str(tmp_path / "[red]run")]
    done = CliRunner().invoke(paths, ["--to", "L1H1", *given], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "[red]t to L1H1" in done.output
    assert f"Written to {tmp_path / '[red]run'}" in done.output


def test_what_was_not_ablated_is_not_said_to_be_without_effect(
    console: Console, tmp_path: Path
) -> None:
    write_run(tmp_path)
    verdicts = pd.read_parquet(tmp_path / "verdicts.parquet")
    heads = pd.read_csv(tmp_path / "heads.csv").assign(tier="C")
    for rows, part in (
        (verdicts.assign(total=0.1), "0 of them matter"),
        (verdicts.assign(total=None), "not measured"),
    ):
        result = Verdicts(tmp_path, rows, heads, pd.DataFrame(), draw_sensitivity(), {}, ())
        print_verdicts(result, console)
        assert part in said(console)
    assert said(console).count("0 of them matter") == 1


def test_the_summary_of_a_run_of_scores_says_that_nothing_was_tested(
    console: Console, tmp_path: Path
) -> None:
    write_run(tmp_path)
    verdicts = pd.read_parquet(tmp_path / "verdicts.parquet")
    verdicts = verdicts.assign(tier="C", effect="unknown", total=None)
    heads = pd.read_csv(tmp_path / "heads.csv")
    heads["tier"] = heads["tier"].where(heads["tier"].isna(), "C")
    named = int((heads["label"] != "no clean label").sum())
    result = Verdicts(tmp_path, verdicts, heads, pd.DataFrame(), draw_sensitivity(), {}, ())
    print_verdicts(result, console)
    assert f"{named} show the pattern and were not tested (C)." in said(console)
    assert "without a detected effect" not in said(console)
    assert "works against" not in said(console)


def test_numbers_on_the_terminal_have_one_sign_and_no_negative_zero(
    console: Console, tmp_path: Path
) -> None:
    scores = draw_scores((2, 4), seed=0).assign(margin=-0.001, specificity=-0.2)
    effects = draw_effects(scores, seed=0).assign(per_damage=-3.0, kl=0.1, control=None)
    effects["total"] -= 0.3
    effects["generic_damage"] = -0.0001
    print_top_heads(scores, manifest((2, 4), "m"), console)
    print_top_effects(effects, ["induction"], [], console)
    assert "−" in said(console)
    assert not re.search(r"(?<![\w-])-\d*\.\d|[-−]0?\.0+(?!\d)", said(console))
    write_run(tmp_path)
    done = CliRunner().invoke(head, [str(tmp_path), "L1H3"])
    assert not re.search(r"(?<![\w-])-\d*\.\d|[-−]0?\.0+(?!\d)", done.output)


def test_a_head_of_a_run_without_verdicts_is_not_judged(tmp_path: Path) -> None:
    for n, tables in enumerate((("scores", "manifest"), ("effects", "manifest"))):
        folder = write_run(tmp_path / str(n), tables=tables)
        done = CliRunner().invoke(head, [str(folder), "L0H1"])
        assert done.exit_code == 0, done.exception
        assert "clean label" not in done.output
        assert "not judged" in done.output or "pattern only" in done.output


def test_a_dossier_says_which_tasks_the_model_does_not_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(head, [str(write_run(tmp_path)), "L1H3"])
    text = " ".join(done.output.split())
    assert "* the model is not shown to do bracket (55 % of 80 items right)" in text
    assert (
        "p over all heads and tasks, or over heads with the pattern; ratio to its effect elsewhere"
        in text
    )


def test_verdicts_with_odd_reasons(console: Console, tmp_path: Path) -> None:
    write_run(tmp_path)
    verdicts = pd.read_parquet(tmp_path / "verdicts.parquet").assign(reasons=TAGS)
    heads = pd.read_csv(tmp_path / "heads.csv")
    result = Verdicts(
        tmp_path, verdicts, heads, pd.DataFrame(), draw_sensitivity(), {"all": 0.9}, (TAGS,)
    )
    print_verdicts(result, console)
    assert said(console).count(TAGS) >= 2


def test_a_dossier_with_odd_reasons_and_tasks(tmp_path: Path) -> None:
    write_run(tmp_path)
    verdicts = pd.read_parquet(tmp_path / "verdicts.parquet").assign(reasons=TAGS)
    verdicts.to_parquet(tmp_path / "verdicts.parquet", index=False)
    effects = pd.read_parquet(tmp_path / "effects.parquet")
    effects["task"] = effects["task"].replace({"coreference": "[/x]"})
    effects.to_parquet(tmp_path / "effects.parquet", index=False)
    done = CliRunner().invoke(head, [str(tmp_path), "L1H3"])
    assert done.exit_code == 0, done.exception
    assert TAGS in done.output
    assert "[/x]" in done.output


def test_runs_of_models_with_odd_names_are_compared(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", name=TAGS, tables=("scores", "manifest"))
    two = write_run(tmp_path / "two", name="[b]", tables=("scores", "manifest"))
    done = CliRunner().invoke(compare, [str(one), str(two)])
    assert done.exit_code == 0, done.exception
    assert f"{TAGS}: no verdicts" in done.output
    assert "[b]: no verdicts" in done.output


def test_a_share_beyond_the_whole_is_not_given_a_size() -> None:
    assert [share(0.5), share(1.0), share(15.1), share(float("nan"))] == [
        "50 %",
        "100 %",
        "> 100 %",
        "–",
    ]


def test_pruning_has_one_sign_and_no_negative_zero(console: Console) -> None:
    rows = pd.DataFrame({"order": "random", "removed": [0, 1, 2], "value": [-0.004, -1.5, 2.0]})
    console.print(table_of_pruning(rows))
    assert said(console).splitlines()[-1].split()[-3:] == ["0.00", "−1.50", "2.00"]
