"""Precision, recall and right tiers: counted on hand-made tables, on planted and random models."""

import subprocess
import sys

import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from rolecall.analyses import planted_command
from rolecall.analyses.planted_command import write_planted
from rolecall.analyses.planted_table import RANDOM as RANDOM_ROW
from rolecall.analyses.planted_table import by_truth, tabulate
from rolecall.analyses.precision import (
    Report,
    by_verdict,
    noise_curve,
    planted_outcomes,
    random_outcomes,
)
from rolecall.analyses.random_models import random_model
from rolecall.reports.check_command import check
from rolecall.reports.precision_figure import recall_curve
from rolecall.reports.table_text import as_markdown

OUTCOMES = pd.DataFrame(
    [
        ("induction", "induction", True, False, True, "A", "A"),
        ("induction", "induction", True, False, True, "B", "A"),
        ("induction", "induction", True, False, False, "none", "A"),
        ("induction", "fixed_offset", False, True, True, "C", "none"),
        ("induction", "fixed_offset", False, True, False, "none", "none"),
        ("induction", "previous_token", False, False, False, "D", "D"),
        ("bracket", "uniform", False, False, False, "none", "none"),
    ],
    columns=["role", "name", "true", "impostor", "labelled", "tier", "right"],
).assign(tier_right=lambda rows: rows["tier"] == rows["right"])
RANDOM = pd.DataFrame(
    {
        "role": ["induction", "bracket"] * 3,
        "labelled": [True, True, False, False, False, False],
        "model": ["a", "a", "b", "b", "c", "c"],
    }
)


def test_rates_are_counted_per_role():
    table = tabulate(OUTCOMES).set_index("role").to_dict("index")
    row = table["induction"]
    assert (row["heads"], row["found"], row["missed"], row["wrong"]) == (3, 2, 1, 1)
    assert row["recall"] == pytest.approx(2 / 3)
    assert row["precision"] == pytest.approx(2 / 3)
    assert 0 < row["recall_low"] < row["recall"]
    assert (row["impostors"], row["impostors_labelled"]) == (2, 1)
    assert pd.isna(table["bracket"]["recall"])
    assert pd.isna(table["bracket"]["precision"])


def test_labels_of_random_models_stand_beside():
    row = tabulate(OUTCOMES, RANDOM).set_index("role").to_dict("index")["induction"]
    assert (row["random_heads"], row["random_labels"]) == (3, 1)


def test_tiers_are_counted_where_they_are_known_and_wrong_ones_everywhere():
    table = tabulate(OUTCOMES).set_index("role").to_dict("index")
    counts = ("tiers", "tiers_right", "tiers_wrong")
    assert [table["induction"][name] for name in counts] == [6, 3, 3]
    assert [table["bracket"][name] for name in counts] == [0, 0, 0]
    assert "tiers" not in tabulate(OUTCOMES.drop(columns=["tier", "right", "tier_right"]))


def test_what_is_true_is_counted_over_roles_and_a_random_model_once():
    counts = by_truth(OUTCOMES, RANDOM).set_index("truth")
    assert counts.to_dict("index") == {
        "A": {"cases": 3, "right": 1},
        "D": {"cases": 1, "right": 1},
        "no tier (impostors)": {"cases": 2, "right": 1},
        "no tier (all others)": {"cases": 1, "right": 1},
        "no label (random models)": {"cases": 3, "right": 2},
    }


def report(planted, random):
    wrong = planted[~planted["tier_right"]]
    return Report(tabulate(planted, random), by_truth(planted, random), wrong)


def test_a_report_is_ok_if_no_tier_is_wrong_and_few_random_models_are_labelled():
    right = OUTCOMES[OUTCOMES["tier_right"]]
    quiet = RANDOM.assign(labelled=False)
    assert report(right, quiet).ok
    assert not report(OUTCOMES, quiet).ok
    assert not report(right, RANDOM).ok
    many = pd.concat([quiet.assign(model=f"m{i}") for i in range(19)] + [RANDOM.head(2)])
    assert report(right, many).ok  # 1 of 20


@pytest.mark.parametrize("outcomes", [OUTCOMES, OUTCOMES[OUTCOMES["tier_right"]]])
def test_the_command_fails_if_a_tier_is_wrong_and_says_which(monkeypatch, tmp_path, outcomes):
    found = report(outcomes.assign(model="planted 0", layer=1, head=2), RANDOM.iloc[2:])
    monkeypatch.setattr(planted_command, "planted_report", lambda *_args: found)
    run = CliRunner().invoke(check, ["--planted", "--out", str(tmp_path)])
    assert run.exit_code == (0 if found.ok else 1), run.output
    assert ("Wrong tiers" in run.output) == (not found.ok)
    assert f"{len(outcomes[outcomes['tier_right']]) - 1}/{len(outcomes) - 1}" in run.output
    assert len(pd.read_csv(tmp_path / "planted_wrong.csv")) == len(found.wrong)
    text = (tmp_path / "planted.md").read_text(encoding="utf-8")
    for rows in (found.roles, found.truths):
        assert as_markdown(rows) in text


def test_a_report_of_no_models_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one planted and one random model; got 0 and 20"):
        write_planted(tmp_path, n_planted=0)


def test_random_models_keep_the_random_state_and_their_seed():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same = (random_model("llama", 50, seed=3).state_dict() for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)


def test_the_curve_is_drawn_with_its_rows(tmp_path):
    table = pd.DataFrame(
        {
            "role": ["a", "b"] * 2,
            "noise": [0.0, 0.0, 0.1, 0.1],
            "recall": [1.0, 1.0, 1.0, 0.5],
        }
    )
    recall_curve(table, save=tmp_path / "curve")
    assert {p.suffix for p in tmp_path.iterdir()} == {".svg", ".pdf", ".png", ".csv"}
    assert len(pd.read_csv(tmp_path / "curve.csv")) == 4
    with pytest.raises(ValueError, match="no column noise"):
        recall_curve(table.drop(columns="noise"))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_planted_model_of_each_architecture_gets_its_labels_and_no_others(seed):
    (rows,) = planted_outcomes([seed], noise=0.0, label=by_verdict)
    wrong = rows[rows["true"] != rows["labelled"]]
    assert wrong.empty, wrong[["layer", "head", "role", "name", "true"]].to_string()


def test_a_random_model_gets_no_label():
    (rows,) = random_outcomes([2], label=by_verdict)
    assert not rows["labelled"].any()


@pytest.mark.slow
def test_labels_and_tiers_are_right_and_random_models_stay_within_the_error_rate(tmp_path):
    """The command itself, in a process of its own: type checks at run time double the minutes."""
    call = "import sys; from rolecall.reports.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", call, "check", "--planted", "--out", str(tmp_path)]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    roles = pd.read_csv(tmp_path / "planted.csv")
    planted = roles[roles["heads"] > 0]
    assert len(planted) >= 15
    assert (planted["recall"] == 1).all(), planted.to_string()
    assert (roles["wrong"] == 0).all(), roles.to_string()
    assert roles["impostors_labelled"].sum() == 0
    assert roles["impostors"].sum() >= 50
    truths = pd.read_csv(tmp_path / "planted_tiers.csv").set_index("truth")
    random, known = truths.loc[RANDOM_ROW], truths.drop(RANDOM_ROW)
    assert known["right"].tolist() == known["cases"].tolist(), truths.to_string()
    assert truths["cases"].reindex(["A", "B", "C", "D", "E"]).min() >= 10, truths.to_string()
    # Of 20 models, at a family-wise rate of .05.
    assert int(random["cases"]) - int(random["right"]) <= 1


@pytest.mark.slow
def test_recall_falls_with_noise_and_not_before_the_reference():
    table = noise_curve(3, levels=(0.0, 0.01, 1.0))
    by_level = table.groupby("noise")["recall"].mean()
    assert by_level[0.0] == by_level[0.01] == 1
    assert by_level[1.0] < 0.5
