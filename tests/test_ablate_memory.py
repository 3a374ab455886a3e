"""Memory of an ablation: the numbers that are found, and nothing else that grows with the items."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rolecall.analyses import resampling
from rolecall.analyses.downstream import open_engine
from rolecall.analyses.effects import measure
from rolecall.analyses.heads import all_heads
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.item_store import ItemStore
from rolecall.analyses.resampling import cluster_weights, resampled_means, sign_flips
from rolecall.analyses.sweep import Order, sweep
from tests.test_ablate import choices

FACTS = {
    "task": "t",
    "kind": "zero",
    "metric": "logit_difference",
    "dtype": "float32",
    "direct_exact": True,
    "replaced_by": "zero",
}


def peak(work):
    """Bytes that Python and numpy held at the most, on top of what was there."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_sweep_holds_little_more_than_a_number_for_each_head_and_item(tiny, tmp_path):
    model = tiny("gpt2")

    def run(n):
        task = replace(choices(n=n), name=f"n{n}")
        store = ItemStore(tmp_path, task.name, "zero", "memory")
        with evaluating(model.plain):
            # Two items a batch and one head at a time: as many batches as there can be.
            engine = open_engine(model, rows=24)
            sweep(engine, Order(task, all_heads(model), {"zero": store}), lambda _pairs: None)

    run(4)
    growth = peak(lambda: run(100)) - peak(lambda: run(20))
    assert growth < 600 * (100 - 20) * model.n_heads


def items(n, n_heads=4):
    rows = pd.DataFrame({"item": np.tile(np.arange(n), n_heads)})
    rows["template"] = [f"t{i % 9}" for i in range(n)] * n_heads
    rows["heads"] = np.repeat([f"L0H{head}" for head in range(n_heads)], n)
    rows["layer"], rows["head"], rows["kv_group"] = 0, np.repeat(range(n_heads), n), 0
    draw = np.random.default_rng(0)
    for name in ("clean", "control", "total", "direct", "kl"):
        rows[name] = draw.normal(size=len(rows))
    return rows


def test_the_statistics_of_eight_times_the_items_need_little_more(monkeypatch):
    monkeypatch.setattr(resampling, "AT_ONCE", 2**16)
    few, many = (peak(lambda n=n: measure(items(n), FACTS, seed=0)) for n in (500, 2000))
    # Two bytes for each of 2000 resamples, and the rows themselves; 60 kB were it all at once.
    assert (many - few) / 1500 < 12_000


@pytest.mark.parametrize("held", [10, 1000, 2**20])
def test_what_is_drawn_does_not_depend_on_how_much_is_held_at_once(monkeypatch, held):
    values = np.random.default_rng(0).normal(size=(30, 3))
    weights = cluster_weights([f"t{i % 4}" for i in range(30)], n_resamples=50, seed=0)
    means = weights.astype(float) @ values / weights.sum(axis=1, keepdims=True)
    signs = np.random.default_rng([5, 1]).choice([-1.0, 1.0], size=(40, 30))
    monkeypatch.setattr(resampling, "AT_ONCE", held)
    np.testing.assert_allclose(resampled_means(values, weights), means)
    np.testing.assert_array_equal(np.concatenate(list(sign_flips(30, n=40, seed=5))), signs)
