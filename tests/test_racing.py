"""Racing: intervals that hold at all times, decisions that the full sweep confirms, fewer items."""

from dataclasses import replace

import numpy as np
import pytest

from rolecall.analyses.ablate import ablate
from rolecall.analyses.racing import Race, decide, race, race_through, radius
from tests.test_ablate import BARE, choices
from tests.test_direct import planted  # noqa: F401  (a fixture)
from tests.test_paths import induction_task


@pytest.mark.parametrize("true", [0.0, 1.0, 30.0])
def test_the_sequence_almost_never_leaves_the_mean_out_however_often_one_looks(true):
    draws = np.random.default_rng(0).normal(true, 1.0, size=(400, 600))
    ever_wrong = np.zeros(600, dtype=bool)
    for n in range(2, 401):
        spread = draws[:n].std(axis=0, ddof=1)
        ever_wrong |= np.abs(draws[:n].mean(axis=0) - true) > radius(spread, n, 0.1)
    assert ever_wrong.mean() < 0.1


@pytest.mark.parametrize("items", [40, 400])
def test_of_a_fixed_set_of_items_the_sequence_almost_never_leaves_out_the_mean_of_all(items):
    draw = np.random.default_rng(3)
    ever_wrong = np.zeros(600, dtype=bool)
    drawn = draw.normal(1.0, 1.0, size=(items, 600))
    for n in range(2, items + 1):
        spread = drawn[:n].std(axis=0, ddof=1)
        ever_wrong |= np.abs(drawn[:n].mean(axis=0) - drawn.mean(axis=0)) > 1e-12 + radius(
            spread, n, 0.1, of=items
        )
    assert ever_wrong.mean() < 0.1


def test_a_set_of_items_used_up_leaves_nothing_undecided():
    values = np.random.default_rng(4).normal([0.0, 0.099, 0.5], 1.0, size=(30, 3))
    found = race_through(lambda i, on: values[i][:, on], 30, 3, Race(band=0.1))
    assert "undecided" not in set(found["decision"])
    np.testing.assert_allclose(found["total"], values.mean(axis=0))
    assert radius(np.ones(1), 15, 0.01, of=30)[0] < radius(np.ones(1), 15, 0.01)[0]


def test_the_width_shrinks_with_items_and_grows_with_certainty():
    one = np.ones(1)
    widths = [radius(one, n, 0.01)[0] for n in (8, 16, 64, 256)]
    assert widths == sorted(widths, reverse=True)
    assert radius(one, 64, 1e-6)[0] > radius(one, 64, 0.01)[0]
    assert radius(one, 1, 0.1)[0] == np.inf
    assert radius(one, 2, 1e-9)[0] == np.inf


def test_decisions_are_about_the_band():
    n = 200
    noise = np.random.default_rng(1).normal(0, 0.01, size=(n, 4))
    said, low, high = decide(noise + np.array([0.0, 0.5, -0.5, 0.1]), 0.1, 0.01)
    assert list(said) == ["negligible", "helps", "hurts", "undecided"]
    assert (low < high).all()


def test_a_race_over_known_effects_saves_items_and_errs_less_than_it_may():
    wrong = saved = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        # Most heads do nothing, some a lot, as is usual; spreads differ.
        mean = np.where(draw.random(150) < 0.08, draw.normal(0, 2, 150), draw.normal(0, 0.01, 150))
        spread = 0.02 + 0.3 * np.abs(mean)
        items = draw.normal(mean, spread, size=(96, 150))
        found = race_through(lambda i, on, x=items: x[i][:, on], 96, 150, Race(band=0.1, seed=seed))
        truth = np.where(mean > 0.1, "helps", np.where(mean < -0.1, "hurts", "negligible"))
        decided = (found["decision"] != "undecided").to_numpy()
        wrong += int((found["decision"].to_numpy() != truth)[decided].any())
        saved += 96 * 150 / found["n_items"].sum()
    assert wrong <= 2
    assert saved / 20 > 3


def test_a_race_on_a_planted_model_decides_as_the_full_sweep(planted):  # noqa: F811
    made, model = planted
    task = induction_task(made)
    full = ablate(model, task, ["zero"], settings=BARE).table.set_index("heads")["total"]
    found = race(model, [task], rules=Race(band=0.1, first=4)).set_index("heads")
    truth = np.where(full > 0.1, "helps", np.where(full < -0.1, "hurts", "negligible"))
    decided = found.loc[full.index, "decision"]
    assert set(decided[truth == "helps"]) == {"helps"}
    assert (decided == truth)[decided != "undecided"].all()
    assert (found["n_items"] <= len(task.items)).all()


def test_a_race_on_a_planted_model_needs_a_third_of_the_head_items_and_decides_alike(planted):  # noqa: F811
    made, model = planted
    task = induction_task(made, n=64)
    full = ablate(model, task, ["zero"], settings=replace(BARE, kl=False))
    total = full.table.set_index("heads")["total"]
    found = race(model, [task], rules=Race(band=0.1)).set_index("heads")
    truth = np.where(total > 0.1, "helps", np.where(total < -0.1, "hurts", "negligible"))
    assert list(found.loc[total.index, "decision"]) == list(truth)
    assert {"helps", "negligible"} == set(truth)
    assert 3 * found["n_items"].sum() <= found["of"].sum()


def test_rounds_give_the_effects_of_the_full_sweep(tiny):
    model, task = tiny("llama"), choices(n=9)
    full = ablate(model, task, ["zero"], settings=BARE).table.set_index("heads")["total"]
    # A band that nothing can be decided about: every item is used.
    found = race(model, [task], rules=Race(band=1e-9, first=4)).set_index("heads")["total"]
    np.testing.assert_allclose(found[full.index], full, atol=1e-5)


@pytest.mark.parametrize("rules", [Race(band=0.0), Race(alpha=1.5), Race(first=1)])
def test_rules_that_make_no_sense_are_refused(tiny, rules):
    with pytest.raises(ValueError, match="a race needs"):
        race(tiny("gpt2"), [choices()], rules=rules)
