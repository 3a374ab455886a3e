"""Comparing runs: what is kept, how ranks agree, where roles live."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

from rolecall.analyses.compare import (
    agreement,
    label_changes,
    rank_correlation,
    role_depths,
    same_heads,
)
from rolecall.reports.compare_command import compare
from tests.run_folders import draw_scores, write_run


def labels(*names: str, per_layer: int = 2) -> pd.DataFrame:
    """One head a name, filled layer by layer."""
    rows = [
        (i // per_layer, i % per_layer, name or "no clean label") for i, name in enumerate(names)
    ]
    return pd.DataFrame(rows, columns=["layer", "head", "label"])


ONE = labels("induction", "", "induction", "bracket")
TWO = labels("induction", "", "", "induction")


def test_labels_that_are_kept_and_lost() -> None:
    rows = label_changes({"one": ONE, "two": TWO})
    assert rows.to_dict("records") == [
        {"layer": 0, "head": 0, "one": "induction", "two": "induction", "kept": True},
        {"layer": 1, "head": 0, "one": "induction", "two": "no clean label", "kept": False},
        {"layer": 1, "head": 1, "one": "bracket", "two": "induction", "kept": False},
    ]


def test_agreement_is_the_jaccard_index_of_each_role() -> None:
    rows = agreement({"one": ONE, "two": TWO}).set_index("role")
    assert rows.loc["induction", ["heads", "other_heads", "both"]].tolist() == [2, 2, 1]
    assert rows.loc["induction", "jaccard"] == pytest.approx(1 / 3)
    assert rows.loc["bracket", "jaccard"] == 0
    assert rows.loc["any", "jaccard"] == pytest.approx(2 / 3)


def test_a_run_agrees_with_itself() -> None:
    assert (agreement({"a": ONE, "b": ONE})["jaccard"] == 1).all()
    scores = draw_scores((3, 4), seed=0)
    rows = rank_correlation({"a": scores, "b": scores})
    assert rows["spearman"].tolist() == pytest.approx([1.0] * len(rows))


def test_rank_correlation_is_spearmans() -> None:
    one, two = draw_scores((5, 8), seed=0), draw_scores((5, 8), seed=1)
    rows = rank_correlation({"one": one, "two": two}).set_index("role")
    for role in ("bracket", "first_token"):
        a, b = (t.query(f"role == '{role}'")["score"] for t in (one, two))
        assert rows.loc[role, "spearman"] == pytest.approx(spearmanr(a, b).statistic)
    assert set(rows["n_heads"]) == {40}


def test_rank_correlation_is_null_where_all_heads_are_alike() -> None:
    one = draw_scores((2, 4), seed=0).assign(score=0.5)
    assert rank_correlation({"a": one, "b": one})["spearman"].isna().all()


def test_depth_is_relative_and_needs_no_common_shape() -> None:
    deep = labels("", "induction", "", "", "bracket", per_layer=1)
    rows = role_depths({"one": ONE, "deep": deep}, {"one": 2, "deep": 5})
    rows = rows.set_index(["run", "role"])
    assert rows.loc[("one", "induction"), ["heads", "depth", "first", "last"]].tolist() == [
        2,
        0.5,
        0.0,
        1.0,
    ]
    assert rows.loc[("one", "induction"), "share"] == 0.5
    assert rows.loc[("deep", "induction"), "depth"] == 0.25
    assert not same_heads({"one": ONE, "deep": deep})
    with pytest.raises(ValueError, match="compare them by relative depth"):
        label_changes({"one": ONE, "deep": deep})


def test_the_order_of_rows_does_not_matter() -> None:
    shuffled = TWO.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(
        label_changes({"one": ONE, "two": TWO}), label_changes({"one": ONE, "two": shuffled})
    )


def test_nothing_here_needs_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, rolecall.analyses.compare, rolecall.reports.page, rolecall.reports.head_page, "
        "rolecall.reports.all_figures, rolecall.reports.compare_command, "
        "rolecall.reports.table_command; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_compares_two_runs(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", seed=0)
    two = write_run(tmp_path / "two", seed=1)
    out = tmp_path / "out"
    done = CliRunner().invoke(compare, [str(one), str(two), "--out", str(out), "--steps", "0,9"])
    assert done.exit_code == 0, done.output
    assert "drawn-model (one)" in done.output
    for name in ("labels.csv", "agreement.csv", "ranks.csv", "depth.pdf", "emergence.svg"):
        assert (out / name).is_file(), name


def test_steps_tell_when_each_role_emerges(tmp_path: Path) -> None:
    one, two = (write_run(tmp_path / str(i), seed=i) for i in (0, 1))
    out = tmp_path / "out"
    words = [str(one), str(two), "--out", str(out), "--steps", "0,9"]
    said = CliRunner().invoke(compare, words).output
    assert "The best head of each role, step by step" in said
    rows = pd.read_csv(out / "emergence.csv")
    scores = {0: draw_scores((5, 8), seed=0), 9: draw_scores((5, 8), seed=1)}
    for row in rows.to_dict("records"):
        of_role = scores[row["step"]].query(f"role == '{row['role']}'")
        assert row["score"] == pytest.approx(of_role["score"].max())
    done = CliRunner().invoke(compare, words[:2] + words[4:])
    assert "name a folder for it with --out" in str(done.exception)


def test_runs_of_other_weights_are_told_apart(tmp_path: Path) -> None:
    one, two = (write_run(tmp_path / str(i), seed=i) for i in (0, 1))
    assert "other weights" not in CliRunner().invoke(compare, [str(one), str(two)]).output
    text = (two / "manifest.json").read_text(encoding="utf-8")
    (two / "manifest.json").write_text(text.replace("0123456789abcdef", "ff"), encoding="utf-8")
    assert "other weights" in CliRunner().invoke(compare, [str(one), str(two)]).output


def test_models_of_other_shapes_are_compared_by_depth(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", name="small")
    two = write_run(tmp_path / "two", (8, 4), name="tall")
    done = CliRunner().invoke(compare, [str(one), str(two)])
    assert done.exit_code == 0, done.output
    assert "only depth can be compared" in done.output
    assert "tall" in done.output


@pytest.mark.parametrize(
    ("more", "says"),
    [([], "name two or more"), (["--steps", "1"], "nothing to compare")],
)
def test_one_run_is_not_enough(tmp_path: Path, more: list[str], says: str) -> None:
    one = write_run(tmp_path, tables=("scores",))
    done = CliRunner().invoke(compare, [str(one), *more])
    assert says in str(done.exception)


@pytest.mark.parametrize(
    ("steps", "says"), [("1,2,3", "3 steps for 2 runs"), ("a,b", "whole numbers")]
)
def test_steps_must_fit_the_runs(tmp_path: Path, steps: str, says: str) -> None:
    one = str(write_run(tmp_path, tables=("scores",)))
    done = CliRunner().invoke(compare, [one, one, "--steps", steps])
    assert says in str(done.exception)


def test_weights_that_are_not_known_are_not_called_other(tmp_path: Path) -> None:
    known, unknown = (write_run(tmp_path / name) for name in ("known", "unknown"))
    (unknown / "manifest.json").unlink()
    for runs, names in (((known, unknown), "unknown"), ((unknown, unknown), "unknown")):
        said = " ".join(CliRunner().invoke(compare, list(map(str, runs))).output.split())
        assert f"Which weights were run is not known of {names}" in said
        assert "other weights" not in said
