"""Screening: derivatives that finite differences confirm, and absolute values taken in the mean."""

import numpy as np
import pandas as pd
import pytest
import torch

from rolecall.analyses.ablate import ablate
from rolecall.analyses.screening import agreement, screen
from tests.plain_ablation import PROJECTIONS, metric, replaced_z, z_of
from tests.test_ablate import BARE, choices, losses


@pytest.mark.parametrize("family", ["gpt2b", "llama", "neox", "gemma2", "bert"])
@pytest.mark.parametrize("task", [choices(), losses()], ids=lambda t: t.name)
def test_slopes_are_those_of_small_steps(tiny, family, task):
    model = tiny(family)
    rows = screen(model, task).set_index(["layer", "head"])
    layer, head, step = 1, 2, 1e-2
    projection, slopes = PROJECTIONS[family](model.plain, layer), []
    for item in task.items:
        ids = list(item.token_ids)
        how = {"causal": model.causal, "mask": 4}
        if not model.causal:
            for place in item.positions or (item.position,):
                ids[place] = 4
        z = z_of(model.plain, projection, ids)
        ends = []
        for factor in (1 + step, 1 - step):
            with replaced_z(projection, [head], model.d_head, z * factor):
                ends.append(metric(model.plain, item, **how))
        slopes.append((ends[0] - ends[1]) / (2 * step))
    row = rows.loc[(layer, head)]
    assert row["importance"] == pytest.approx(np.mean(np.abs(slopes)), rel=0.02, abs=2e-4)
    sign = 1 if task.metric == "logit_difference" else -1
    assert row["attribution_zero"] == pytest.approx(sign * np.mean(slopes), rel=0.02, abs=2e-4)


def test_signs_do_not_cancel_across_items(tiny):
    rows = screen(tiny("gpt2b"), choices(n=12))
    assert (rows["importance"] >= rows["attribution_zero"].abs() - 1e-9).all()
    assert (rows["importance"] > rows["attribution_zero"].abs() + 1e-3).any()


def test_each_layers_normalised_importance_has_norm_one(tiny):
    rows = screen(tiny("llama"), choices())
    norms = rows.groupby("layer")["importance_in_layer"].apply(lambda v: np.sqrt((v**2).sum()))
    np.testing.assert_allclose(norms, 1)


def test_no_gradient_is_left_on_the_model(tiny):
    model = tiny("gpt2")
    screen(model, [choices(), losses()])
    assert all(parameter.grad is None for parameter in model.plain.parameters())
    assert torch.is_grad_enabled()


def test_guesses_are_held_against_exact_effects(tiny):
    model, task = tiny("gpt2b"), choices(n=9)
    effects = ablate(model, task, ["zero", "resample"], settings=BARE).table
    found = agreement(screen(model, task), effects)
    guesses = ["attribution_resample", "attribution_zero", "importance", "importance_in_layer"]
    assert list(found["guess"]) == guesses
    assert found["spearman"].between(-1, 1).all()
    perfect = screen(model, task).merge(
        effects[effects["ablation"] == "zero"][["layer", "head", "total"]], on=["layer", "head"]
    )
    perfect["attribution_zero"] = perfect["total"]
    same = agreement(perfect.drop(columns="total"), effects)
    assert same.set_index("guess").loc["attribution_zero", "spearman"] == pytest.approx(1)


def test_tasks_without_twins_have_no_resampling_guess(tiny):
    rows = screen(tiny("gpt2"), losses())
    assert rows["attribution_resample"].isna().all()
    assert pd.notna(rows["importance"]).all()


def test_importance_in_layer_is_ranked_within_layers_and_importance_over_all(tiny):
    model, task = tiny("gpt2b"), choices(n=9)
    screened = screen(model, task)
    effects = ablate(model, task, ["zero"], settings=BARE).table
    # Within a layer as the exact effects are, but the layers the wrong way round.
    exact = effects.set_index(["layer", "head"])["total"].abs()
    turned = [exact[layer, head] / exact[layer].sum() for layer, head in exact.index]
    screened["importance_in_layer"] = turned
    screened["importance"] = -exact.to_numpy()
    found = agreement(screened, effects).set_index("guess")["spearman"]
    assert found["importance_in_layer"] == pytest.approx(1)
    assert found["importance"] == pytest.approx(-1)
