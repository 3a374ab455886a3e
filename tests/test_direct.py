"""Direct effects and self-repair: what heads were built to give, and sums that must come out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.direct import freeze, straight
from rolecall.analyses.downstream import open_engine
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.models import load_model
from rolecall.analyses.planted import Design, plant
from rolecall.analyses.planted_tasks import vote_task
from rolecall.probes.base import Example, Link
from tests.test_ablate import BARE, choices, losses

WORDS = ["<s>", *(f"w{i}" for i in range(400))]
SEATS = {
    (0, 1): "previous_token",
    (1, 0): "duplicate_token",
    (1, 3): "previous_token_only",
    (2, 2): "induction",
    (0, 3): "primary",
    (2, 1): "backup",
}
GAINS = {(0, 1): 1.5, (1, 0): 2.0, (1, 3): -0.75, (2, 2): 1.0, (0, 3): 1.0, (2, 1): 0.6}
LAGS = {"previous_token": 1, "duplicate_token": 12, "induction": 11, "primary": 1}
DESIGN = Design(
    "gpt2",
    SEATS,
    n_layers=3,
    n_ctx=64,
    gains=GAINS,
    # The second previous-token head writes against the first, the backup for the primary.
    speaks_for={(1, 3): (0, 1), (2, 1): (0, 3)},
    seed=3,
)
DESIGNS = {"gpt2": DESIGN, "llama": replace(DESIGN, architecture="llama", n_groups=2)}
NORMED = ("gpt2b", "llama", "neox", "neox_sequential", "gptj", "mistral", "qwen3")


@pytest.fixture(scope="module", params=DESIGNS)
def planted(request):
    made = plant(WORDS, 0, DESIGNS[request.param])
    return made, load_model(made.model)


def effects(planted, seat):
    """Total and direct effect of zeroing each head on the task of one, by (layer, head)."""
    made, model = planted
    lag = LAGS[SEATS[seat]]
    examples = []
    for seed in range(12):
        drawn = torch.randperm(400, generator=torch.Generator().manual_seed(seed))[:12] + 1
        ids = (0, *drawn.tolist(), *drawn.tolist())
        words = tuple((p,) for p in range(1, 25))
        examples.append(Example(ids, f"t{seed}", words, (Link((20,), (20 - lag,)),)))
    task = vote_task(made, seat, examples)
    return ablate(model, task, ["zero"], settings=BARE).table.set_index(["layer", "head"])


@pytest.mark.parametrize("seat", [(0, 1), (1, 0), (2, 2)])
def test_a_planted_head_has_the_effect_it_was_built_to_have(planted, seat):
    row = effects(planted, seat).loc[seat]
    assert row["total"] == pytest.approx(GAINS[seat], rel=0.01)
    assert row["direct"] == pytest.approx(GAINS[seat], rel=0.01)
    assert row["direct_exact"]
    assert row["p_max"] < 0.05


def test_all_other_heads_have_none(planted):
    table = effects(planted, (1, 0))
    others = table.drop((1, 0))
    assert others[["total", "direct"]].abs().to_numpy().max() < 0.01


def test_an_upstream_head_works_indirectly(planted):
    row = effects(planted, (2, 2)).loc[(0, 1)]
    assert row["direct"] == pytest.approx(0, abs=0.01)
    assert row["indirect"] == pytest.approx(GAINS[2, 2], rel=0.02)


def test_a_head_that_writes_against_the_answer_has_the_opposite_sign(planted):
    row = effects(planted, (0, 1)).loc[(1, 3)]
    assert (row["total"], row["direct"]) == pytest.approx((-0.75, -0.75), rel=0.01)
    assert row["total_high"] < 0


def test_the_backup_repairs_its_share(planted):
    table = effects(planted, (0, 3))
    row = table.loc[(0, 3)]
    assert row["direct"] == pytest.approx(1.0, rel=0.02)
    assert row["total"] == pytest.approx(0.4, rel=0.05)
    assert row["self_repair"] == pytest.approx(0.6, rel=0.05)
    # The backup is silent while the primary speaks.
    assert table.loc[(2, 1), "total"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("family", NORMED)
def test_direct_effects_are_the_write_through_the_frozen_norm_onto_the_answer(tiny, family):
    model, task = tiny(family), choices()
    rows = ablate(model, task, ["zero"], settings=BARE).items(task.name, "zero")
    embedding = model.plain.get_output_embeddings().weight.detach()
    for number, item in enumerate(task.items):
        kept = {}
        with evaluating(model.plain):
            engine = open_engine(model)
            hidden = engine.start(torch.tensor([item.token_ids]))
            for layer in range(model.n_layers):
                kept[layer], hidden = engine.clean(layer, hidden)
        stream = hidden[0, item.position].double()
        gain = engine.tail.norm.weight.detach().double()
        centred = hasattr(engine.tail.norm, "normalized_shape")
        stream = stream - stream.mean() * centred
        axis = (embedding[item.answer] - embedding[item.foil]).double()
        for row in rows[rows["item"] == number].itertuples():
            z = kept[int(row.layer)].z[0, item.position, row.head].double()
            write = z @ model.W_O(int(row.layer))[row.head].detach().double()
            write = write - write.mean() * centred
            direct = (write * gain / stream.square().mean().sqrt() * axis).sum()
            assert row.direct == pytest.approx(direct.item(), abs=1e-3)


@pytest.mark.parametrize("family", ["gpt2b", "llama", "gptj"])
def test_heads_of_a_layer_share_out_its_direct_effect(tiny, family):
    # Linear once the scale is frozen: singles add up to the set; the bias b_O is nobody's.
    model = tiny(family)
    heads = ("L1H0", "L1H1", "L1H2", "L1H3", "L1H0+L1H1+L1H2+L1H3")
    settings = replace(BARE, heads=heads)
    table = ablate(model, choices(), ["zero"], settings=settings).table.set_index("heads")
    singles = table.loc[list(heads[:4]), "direct"].sum()
    assert table.loc[heads[4], "direct"] == pytest.approx(singles, abs=1e-4)


def test_in_a_last_parallel_block_the_direct_effect_is_all_but_the_scale(tiny):
    # No MLP reads the head there, so what is left over is only that the norm's scale moves.
    model = tiny("gptj")
    with evaluating(model.plain):
        engine = open_engine(model)
        ids = torch.tensor([choices().items[0].token_ids])
        hidden = engine.start(ids)
        _, hidden = engine.clean(0, hidden)
        step, hidden = engine.clean(1, hidden)
        stream = hidden[0]
        change = engine.change(1, -step.z, [(2,)])[0, 0]
        norm = engine.tail.norm
        scale = (stream - stream.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).sqrt()
        moved = stream + change
        there = (moved - moved.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).sqrt()
        frozen = freeze(norm, stream)(change)
        rescaled = (norm(moved) - norm.bias) * there / scale - (norm(stream) - norm.bias)
    torch.testing.assert_close(frozen, rescaled, atol=3e-3, rtol=1e-2)


def test_where_a_norm_stands_between_the_table_says_approximate(tiny):
    table = ablate(tiny("gemma2"), choices(), ["zero"], settings=BARE).table
    assert not table["direct_exact"].any()
    assert table["direct"].notna().all()


def test_an_encoder_has_no_direct_effect_rather_than_a_wrong_one(tiny):
    model = tiny("bert")
    with evaluating(model.plain):
        assert straight(open_engine(model)) is None
    table = ablate(model, choices(), ["zero"], settings=BARE).table
    assert table[["direct", "indirect", "self_repair"]].isna().all().all()
    assert table["total"].notna().all()


def test_a_loss_has_direct_effects_too(tiny):
    table = ablate(tiny("llama"), losses(), ["zero"], settings=BARE).table
    assert table["direct"].notna().all()
    np.testing.assert_allclose(table["indirect"], table["total"] - table["direct"], atol=1e-9)


def test_self_repair_is_null_unless_the_two_oppose_each_other(tiny):
    table = ablate(tiny("gpt2b"), choices(n=12), ["zero"], settings=Settings(damage=0)).table
    repaired = table[table["self_repair"].notna()]
    assert (repaired["direct"] * repaired["indirect"] < 0).all()
    sure = (table["direct_low"] > 0) | (table["direct_high"] < 0)
    assert not table.loc[~sure, "self_repair"].notna().any()
    pd.testing.assert_series_equal(
        repaired["self_repair"], -repaired["indirect"] / repaired["direct"], check_names=False
    )
