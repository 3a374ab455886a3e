"""Precision and recall: counting by hand-made tables, labels on planted and random models."""

import pandas as pd
import pytest
import torch

from rolecall.analyses.planted_command import markdown, write_planted
from rolecall.analyses.precision import (
    by_verdict,
    noise_curve,
    planted_outcomes,
    planted_report,
    random_outcomes,
    tabulate,
)
from rolecall.analyses.random_models import random_model
from rolecall.reports.precision_figure import recall_curve

OUTCOMES = pd.DataFrame(
    [
        ("induction", "induction", True, True),
        ("induction", "induction", True, True),
        ("induction", "induction", True, False),
        ("induction", "fixed_offset", False, True),
        ("induction", "fixed_offset", False, False),
        ("induction", "uniform", False, False),
        ("bracket", "uniform", False, False),
    ],
    columns=["role", "name", "true", "labelled"],
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
    random = OUTCOMES[["role", "labelled"]]
    row = tabulate(OUTCOMES, random).set_index("role").to_dict("index")["induction"]
    assert (row["random_heads"], row["random_labels"]) == (6, 3)


def test_the_table_is_written_with_dashes_for_nothing():
    text = markdown(tabulate(OUTCOMES))
    assert text.splitlines()[0].startswith("| role | heads | found | missed | wrong | recall |")
    assert "| bracket | 0 | 0 | 0 | 0 | – | – | – | – | 0 | 0 |" in text


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
def test_precision_and_recall_are_one_and_random_models_stay_within_the_error_rate():
    report = planted_report(30, 20)
    planted = report[report["heads"] > 0]
    assert len(planted) >= 15
    assert (planted["recall"] == 1).all(), planted.to_string()
    assert (report["wrong"] == 0).all(), report.to_string()
    assert report["impostors_labelled"].sum() == 0
    assert report["impostors"].sum() >= 50
    assert report["random_labels"].sum() <= 1  # of 20 models, at a family-wise rate of .05


@pytest.mark.slow
def test_recall_falls_with_noise_and_not_before_the_reference():
    table = noise_curve(3, levels=(0.0, 0.01, 1.0))
    by_level = table.groupby("noise")["recall"].mean()
    assert by_level[0.0] == by_level[0.01] == 1
    assert by_level[1.0] < 0.5
