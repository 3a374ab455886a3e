"""SmolLM2: known effects on repeated random tokens, and five heads recomputed without us."""

import random

import numpy as np
import pytest
import torch

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.models import load_model
from rolecall.analyses.paths import PathSettings, paths
from rolecall.analyses.role_tasks import role_tasks
from rolecall.probes.base import Item, Task
from tests.plain_ablation import PROJECTIONS, metric, replaced_z

pytestmark = [pytest.mark.real, pytest.mark.slow]

KNOWN = {"L16H0": 5.5, "L18H6": 1.8, "L1H4": 7.0, "L1H5": 4.8, "L1H3": 2.8, "L2H2": 2.2}


@pytest.fixture(scope="module")
def model(smollm2):
    return load_model(smollm2)


def second_copy(model, n=8, period=24):
    """[BOS] and twice the same random tokens; loss on the second copy, its first token left out."""
    draw = random.Random(0)
    items = []
    for _ in range(n):
        block = draw.sample(model.aligner.ordinary, period)
        marked = tuple(range(period + 2, 2 * period + 1))
        items.append(Item((model.aligner.bos, *block, *block), "repeat", positions=marked))
    return Task("second_copy", "loss", tuple(items))


@pytest.fixture(scope="module")
def found(model):
    settings = Settings(heads=tuple(KNOWN), damage=8)
    return ablate(model, second_copy(model), ["zero", "mean"], settings=settings).table


def test_what_removing_known_heads_costs_on_repeated_tokens(found):
    rows = found[(found["task"] == "second_copy") & (found["ablation"] == "zero")]
    rows = rows.set_index("heads")
    assert rows["interpretable"].all()
    for head, cost in KNOWN.items():
        # One text of this kind is the source of the numbers; eight others give about the same.
        assert rows.loc[head, "total"] == pytest.approx(cost, abs=1.0), head


def test_an_early_head_that_damages_everything_does_not_pass_for_an_induction_head(found):
    rows = found[found["task"] == "second_copy"].set_index(["ablation", "heads"])
    for head in ("L1H4", "L1H5", "L1H3"):
        # Much of its effect goes when its mean takes its place, and it damages all text.
        assert rows.loc[("mean", head), "total"] < 0.25 * rows.loc[("zero", head), "total"]
        assert rows.loc[("zero", head), "generic_damage"] > 0.1
    for head in ("L16H0", "L18H6"):
        assert rows.loc[("mean", head), "total"] > 0.6 * rows.loc[("zero", head), "total"]
        assert rows.loc[("zero", head), "generic_damage"] < 0.05
        most = rows.loc["zero"].loc[["L1H4", "L1H5", "L1H3"], "per_damage"].max()
        assert rows.loc[("zero", head), "per_damage"] > 2 * most


def test_five_effects_equal_plain_transformers_with_a_pre_hook_on_o_proj(model):
    task = second_copy(model, n=2)
    heads = [(0, 3), (1, 4), (16, 0), (18, 6), (29, 8)]
    names = tuple(f"L{layer}H{head}" for layer, head in heads)
    rows = ablate(model, task, ["zero"], settings=Settings(heads=names, damage=0))
    rows = rows.items("second_copy", "zero").set_index(["heads", "item"])
    for (layer, head), name in zip(heads, names, strict=True):
        for number, item in enumerate(task.items):
            with replaced_z(PROJECTIONS["llama"](model.plain, layer), [head], model.d_head):
                changed = metric(model.plain, item)
            clean = metric(model.plain, item)
            assert rows.loc[(name, number), "total"] == pytest.approx(changed - clean, abs=1e-4)


def test_the_model_does_agreement_and_its_top_heads_have_intervals(model):
    (task,) = role_tasks(model, ["subject_verb"], n=24)
    settings = Settings(heads=("L16H0", "L18H6", "L20H1", "L22H4"), damage=0, kl=False)
    table = ablate(model, task, ["mean"], settings=settings).table
    assert table["clean_accuracy"].iloc[0] > 0.8
    assert table["interpretable"].all()
    assert np.isfinite(table[["total_low", "total_high"]].to_numpy(float)).all()


def test_l16h0_feeds_the_keys_of_l18h6(model):
    settings = PathSettings(senders=("L16H0", "L15H0", "L16H1", "L17H3"))
    rows = paths(model, second_copy(model, n=4), "L18H6", settings=settings)
    assert (rows.loc[0, "heads"], rows.loc[0, "entry"]) == ("L16H0", "k")
    assert rows.loc[0, "total"] > 3 * rows.loc[1, "total"]


def test_the_model_is_untouched(model):
    ids = torch.tensor([second_copy(model, n=1).items[0].token_ids])
    with torch.no_grad():
        before = model.plain(ids).logits
        settings = Settings(heads=("L29H0",), damage=0)
        ablate(model, second_copy(model, n=2), ["zero"], settings=settings)
        assert torch.equal(model.plain(ids).logits, before)
