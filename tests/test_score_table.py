"""From evidence to scores: every column recomputed another way, and what the statistics promise."""

import numpy as np
import pandas as pd
import pytest

from rolecall.analyses.accounting import best_account
from rolecall.analyses.resampling import choices, cluster_weights, resampled_means
from rolecall.analyses.score_table import Settings, join, score_role
from rolecall.probes.base import Crafted, probe
from tests.synthetic_evidence import link_row, random_block, write


@probe(family="f", source="s", score="mass", accounts=("offset", "nearest"), no_task="none")
def made_up(aligner, *, n, seed):
    """Looks at nothing in particular."""
    return Crafted(())


def some_rows(n_examples=12, *, twins=False, **changes):
    rows = []
    for example in range(n_examples):
        for twin in (False, True) if twins else (False,):
            for k in range(2):
                offset = (-3, -2, -5)[(example + k) % 3]
                more = {"offsets": (offset,), "nearest": k == 0, **changes}
                rows.append(link_row(example, template=f"t{example % 4}", twin=twin, **more))
    return rows


def scored(tmp_path, block, **settings):
    evidence = write(tmp_path / "made_up.parquet", [block], layers=2, heads=3)
    return join(
        {"made_up": score_role(evidence, made_up, group_size=1, settings=Settings(**settings))}
    )


def test_score_is_the_mean_over_links_then_over_examples(tmp_path):
    rows = [link_row(0, template="a"), *[link_row(1, template="b") for _ in range(3)]]
    block = random_block(rows, n_heads=6, n_rivals=2, seed=3)
    table = scored(tmp_path, block)
    by_hand = (block.mass[0] + block.mass[1:].mean(axis=0)) / 2
    np.testing.assert_allclose(table["score"], by_hand, atol=1e-6)
    assert (table["n_links"] == 4).all()
    assert (table["n_examples"] == 2).all()


def test_specificity_is_target_minus_rivals_over_example_and_twin(tmp_path):
    block = random_block(some_rows(twins=True), n_heads=6, n_rivals=2, seed=4)
    table = scored(tmp_path, block)
    contrast = pd.DataFrame(block.mass - block.rivals.mean(axis=2))
    by_hand = contrast.groupby(block.version()).mean().mean()
    np.testing.assert_allclose(table["specificity"], by_hand, atol=1e-6)
    score = pd.DataFrame(block.mass).groupby(block.version()).mean().mean()
    np.testing.assert_allclose(table["score"], score, atol=1e-6)


def test_blocks_may_come_in_any_order_and_size(tmp_path):
    rows = some_rows()
    block = random_block(rows, n_heads=6, n_rivals=2, seed=5)

    def part(index):
        arrays = {
            k: getattr(block, k)[index] for k in ("mass", "hit", "sink", "rivals", "has_rival")
        }
        return type(block)(rows=tuple(rows[i] for i in index), **arrays)

    whole = write(tmp_path / "a.parquet", [block], layers=2, heads=3)
    pieces = [part(range(16, 24)), part(range(4)), part(range(4, 16))]
    split = write(tmp_path / "b.parquet", pieces, layers=2, heads=3)
    tables = [
        join({"r": score_role(e, made_up, group_size=1, settings=Settings())})
        for e in (whole, split)
    ]
    pd.testing.assert_frame_equal(*tables, rtol=1e-5, atol=1e-7)


def test_one_template_gives_no_interval(tmp_path):
    rows = [link_row(i, template="only") for i in range(6)]
    table = scored(tmp_path, random_block(rows, n_heads=6, n_rivals=1, seed=0))
    assert table[["ci_low", "ci_high", "margin_low", "specificity_low"]].isna().all(axis=None)
    assert table["score"].notna().all()


def test_an_account_is_chosen_on_other_templates_than_it_is_tried_on():
    """Offsets that hold within a template and differ between them explain nothing."""
    rows = [
        link_row(10 * t + i, template=f"t{t}", offsets=(-2 - t,), nearest=False)
        for t in range(8)
        for i in range(5)
    ]
    baseline = best_account(rows, ("offset",), seed=0)
    assert baseline.value.mean() == pytest.approx(0.2), "no better than an even head"
    shared = [link_row(i, template=f"t{i % 8}", offsets=(-2,), nearest=False) for i in range(40)]
    assert best_account(shared, ("offset",), seed=0).value.mean() == 1.0
    assert best_account(shared, ("offset",), seed=0).name == "offset -2"


def test_off_baseline_counts_only_links_where_the_account_points_elsewhere(tmp_path):
    rows = [
        link_row(i, template=f"t{i % 4}", offsets=((-2,) if i % 3 else (-7,)), nearest=None)
        for i in range(24)
    ]
    block = random_block(rows, n_heads=6, n_rivals=2, seed=6)
    table = scored(tmp_path, block)
    elsewhere = np.array([row.offsets == (-7,) for row in rows])
    np.testing.assert_allclose(table["off_baseline"], block.mass[elsewhere].mean(axis=0), atol=1e-6)


def test_consistency_counts_templates_where_the_simpler_account_leaves_room(tmp_path):
    """A perfect head cannot beat an account that is right on every link of a template."""
    rows = [
        link_row(i, template=f"t{i % 8}", offsets=(-3 - i % 8,), nearest=i % 8 < 4)
        for i in range(48)
    ]
    block = random_block(rows, n_heads=6, n_rivals=2, seed=0)
    block.mass[:, 4], block.rivals[:, 4] = 1.0, 0.0
    table = scored(tmp_path, block)
    assert "nearest" in table["baseline_name"][0]
    assert table["consistency"][4] == 1.0


def test_the_bootstrap_resamples_templates_then_examples():
    templates = ["a"] * 3 + ["b"] * 5
    weights = cluster_weights(templates, n_resamples=4000, seed=0)
    assert (weights[:, :3].sum(axis=1) % 3 == 0).all(), "a template comes whole, 0, 1 or 2 times"
    assert (weights[:, 3:].sum(axis=1) % 5 == 0).all()
    assert set(np.unique(weights[:, :3].sum(axis=1))) == {0, 3, 6}
    values = np.arange(8.0)[:, None]
    only_a = weights[:, 3:].sum(axis=1) == 0
    means = resampled_means(values, weights)[only_a]
    assert means.min() >= 0.0
    assert means.max() <= 2.0
    assert means.std() > 0.1, "examples within a template are drawn anew"


def test_an_original_and_its_twin_are_drawn_together():
    weights = cluster_weights(["a", "a", "b", "b"], [0, 0, 1, 1], n_resamples=50, seed=0)
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, 2] == weights[:, 3]).all()


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        level = rng.normal(0, 1, size=20).repeat(5)
        values = (level + rng.normal(0, 1, size=100))[:, None]
        weights = cluster_weights([str(i // 5) for i in range(100)], n_resamples=400, seed=trial)
        low, high = np.quantile(resampled_means(values, weights), [0.025, 0.975])
        covered += low <= 0 <= high
    assert 0.86 <= covered / 200 <= 1.0


def test_permutations_share_a_draw_within_an_example_and_are_even_over_spans():
    example, n_rivals = np.array([0, 0, 1, 1]), np.array([2, 2, 2, 2])
    drawn = choices(example, n_rivals, n_permutations=3000, seed=0)
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (drawn[:, 0] != drawn[:, 2]).any()
    np.testing.assert_allclose(np.bincount(drawn[:, 0]) / 3000, 1 / 3, atol=0.03)


def test_heads_that_look_at_random_are_rarely_called_significant(tmp_path):
    hits, total = 0, 0
    for seed in range(40):
        block = random_block(some_rows(24), n_heads=6, n_rivals=2, seed=seed)
        table = scored(tmp_path, block, seed=seed, n_permutations=199, n_resamples=10)
        hits += int((table["p_max"] < 0.05).any())
        total += 1
        assert (table["p_max"] >= table["p_value"] - 1e-12).all()
        assert (table["q_value"] >= table["p_value"] - 1e-12).all()
    assert hits / total <= 0.15, "5 % of families, give or take"


def test_a_head_on_the_target_is_significant(tmp_path):
    block = random_block(some_rows(24), n_heads=6, n_rivals=2, seed=0)
    block.mass[:, 4], block.rivals[:, 4], block.hit[:, 4] = 0.9, 0.01, 1.0
    table = scored(tmp_path, block)
    best = table.loc[table["score"].idxmax()]
    assert (best["layer"], best["head"]) == (1, 1)
    assert best["p_max"] <= 0.05
    assert best["margin_low"] > 0.1


def test_sink_adjusted_is_null_where_little_is_left_outside_the_sink(tmp_path):
    block = random_block(some_rows(), n_heads=6, n_rivals=2, seed=0)
    block.sink[:, 0], block.sink[:, 1], block.mass[:, 1] = 0.95, 0.5, 0.25
    table = scored(tmp_path, block)
    assert np.isnan(table["sink_adjusted"][0])
    assert table["sink_adjusted"][1] == pytest.approx(0.5)
