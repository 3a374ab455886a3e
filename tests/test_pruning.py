"""Pruning: the orders are the run's, what is lost is what plain transformers lose."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.models import Model, load_model
from rolecall.analyses.pruning import Pruning, prune
from rolecall.analyses.removal_orders import counts, read_ranks, removals
from rolecall.analyses.role_tasks import role_tasks
from rolecall.analyses.scan import scan
from rolecall.analyses.tables import SCHEMAS, read_table, write_table
from rolecall.reports.cli import main
from rolecall.reports.survey_command import prune_labelled
from tests.plain_ablation import metric, replaced_z

HOW = Pruning(n=4, draws=3, kind="zero", seed=0)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model()


@pytest.fixture(scope="module")
def run(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the embedded model on induction alone, with made-up verdicts."""
    folder = tmp_path_factory.mktemp("run")
    scan(model, ["induction"], n=4, seed=0, out=folder)
    tasks = role_tasks(model, ["induction"], n=4, seed=0)
    settings = Settings(kl=False, damage=0)
    ablate(model, tasks, ["zero"], settings=settings, out=folder)
    return folder


@pytest.fixture(scope="module")
def table(model: Model, run: Path) -> pd.DataFrame:
    return prune(model, run, how=HOW)


def test_counts_are_dense_at_first_and_reach_the_end() -> None:
    assert counts(5) == (0, 1, 2, 3, 4, 5)
    assert counts(32, 8) == (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    assert counts(270)[-3:] == (192, 256, 270)
    assert 13 in counts(40, 13)


def test_what_is_lost_is_what_plain_transformers_lose(
    model: Model, run: Path, table: pd.DataFrame
) -> None:
    (task,) = role_tasks(model, ["induction"], n=HOW.n, seed=HOW.seed + 1)
    scores = read_table(run, "scores")
    best = scores.sort_values(["score", "layer", "head"], ascending=[False, True, True])
    three = best[["layer", "head"]].head(3).to_numpy().tolist()
    module = model.plain
    with torch.no_grad():
        clean = [metric(module, item) for item in task.items]
    with ExitStack() as stack:
        for layer, head in three:
            projection = module.model.layers[layer].self_attn.o_proj
            stack.enter_context(replaced_z(projection, [head], model.d_head))
        without = [metric(module, item) for item in task.items]
    ours = table[table["order"] == "induction"].set_index("removed")
    assert set(ours.loc[3, "heads"].split("+")) == {f"L{layer}H{head}" for layer, head in three}
    rows = ours["value"]
    assert rows[0] == pytest.approx(np.mean(clean), abs=1e-4)
    assert rows[3] == pytest.approx(np.mean(without), abs=1e-3)
    assert rows[3] > rows[0]


def test_every_order_begins_with_the_whole_model_and_ends_without_heads(
    table: pd.DataFrame,
) -> None:
    assert set(table["order"]) == {"largest effect", "smallest effect", "induction", "random"}
    for _, rows in table.groupby("order"):
        assert rows["removed"].tolist() == list(counts(32))
    for removed in (0, 32):
        values = table.loc[table["removed"] == removed, "value"]
        assert np.ptp(values) == pytest.approx(0, abs=1e-6)


def test_the_largest_effects_first_lose_most(table: pd.DataFrame) -> None:
    # Between the others nothing must hold: four heads that nobody misses one by one may be doubles,
    # and among four drawn at random may be one of the four that count.
    at = table[table["removed"] == 4].set_index("order")["value"]
    assert at["largest effect"] > 10 * at["smallest effect"]
    assert at["largest effect"] > 2 * at["random"]


def test_the_random_band_is_the_range_of_its_draws(
    model: Model, run: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    rows = table[table["order"] == "random"]
    assert (rows["low"] <= rows["value"]).all()
    assert (rows["value"] <= rows["high"]).all()
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    one = prune(model, copy, how=replace(HOW, draws=1))
    alone = one[one["order"] == "random"]
    inside = rows.set_index("removed").loc[alone["removed"]]
    assert (alone["value"].to_numpy() >= inside["low"].to_numpy() - 1e-9).all()
    assert (alone["value"].to_numpy() <= inside["high"].to_numpy() + 1e-9).all()
    assert alone["low"].isna().all()  # one draw has no range


def test_labelled_heads_go_first_in_their_roles_order(run: Path) -> None:
    ranks = read_ranks(run)
    assert ranks.labelled_tasks() == ()
    worst = ranks.scores.sort_values("score").head(2)[["layer", "head"]].to_numpy().tolist()
    held = {"induction": frozenset((layer, head) for layer, head in worst)}
    labelled = replace(ranks, held=held)
    assert labelled.labelled_tasks() == ("second_copy",)
    (first, *_) = removals(labelled, "second_copy", [(0, 0)], draws=1, seed=0)
    assert first.name == "induction"
    assert set(first.heads[:2]) == held["induction"]
    assert len(first.heads) == 32
    scores = ranks.scores.set_index(["layer", "head"])["score"]
    rest = [scores[head] for head in first.heads[2:]]
    assert rest == sorted(rest, reverse=True)


def test_the_table_is_written_and_not_made_twice(
    model: Model, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prune(model, run, how=HOW)
    written = (run / "pruning.parquet").read_bytes()
    pd.testing.assert_frame_equal(pd.read_parquet(run / "pruning.parquet"), first)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("this was done already")

    monkeypatch.setattr("rolecall.analyses.pruning.sweep", never)
    again = prune(model, run, how=HOW)
    pd.testing.assert_frame_equal(first, again)
    assert (run / "pruning.parquet").read_bytes() == written


def test_a_run_without_effects_says_what_is_lacking(model: Model, tmp_path: Path) -> None:
    scan(model, ["induction"], n=4, seed=0, out=tmp_path)
    with pytest.raises(ValueError, match="rolecall ablate"):
        prune(model, tmp_path, how=HOW)


def test_tasks_that_the_model_cannot_do_are_not_pruned(model: Model, run: Path) -> None:
    with pytest.raises(ValueError, match="was not measured in this run, or the model"):
        prune(model, run, ["coreference"], how=HOW)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (replace(HOW, kind="resample"), "zero or mean"),
        (replace(HOW, n=1), "at least two items"),
        (replace(HOW, draws=0), "at least one random order"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    model: Model, run: Path, how: Pruning, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        prune(model, run, how=how)


def test_the_command_prints_and_draws_the_curves(
    run: Path, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"prune --task induction -n 4 --kind zero --out {run}"
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for order in set(table["order"]):
        assert order in said
    for kind in ("svg", "pdf", "png", "csv"):
        assert (run / "figures" / f"pruning-second_copy.{kind}").stat().st_size > 0


def test_a_survey_prunes_small_models_only(
    model: Model, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("rolecall.analyses.pruning.prune", lambda *a, **_: asked.append(a[2]))
    assert prune_labelled(model, tmp_path, 0, None) == []  # no effects
    assert prune_labelled(model, run, 0, None) == []  # no labels
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    first = {"layer": 1, "head": 0, "role": "induction", "tier": "A", "reasons": "made up"}
    verdicts = pd.DataFrame([first]).reindex(columns=SCHEMAS["verdicts"].names)
    write_table(copy, "verdicts", verdicts)
    large = SimpleNamespace(n_layers=10, n_heads=10)
    assert "rolecall prune" in prune_labelled(large, copy, 0, None)[0]
    assert asked == []
    assert prune_labelled(model, copy, 0, None) == []
    assert asked == [("second_copy",)]
