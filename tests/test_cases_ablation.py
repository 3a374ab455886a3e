"""Faults that people really hit when they ablate heads, each with a small input and the truth."""

import math

import numpy as np
import pytest
import torch

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.downstream import open_engine
from rolecall.analyses.hooks import evaluating, read_z
from rolecall.analyses.item_batches import batches
from rolecall.analyses.metrics import score
from rolecall.analyses.models import load_model
from rolecall.analyses.without import reference_means, without
from rolecall.probes.base import Item, Task
from tests.plain_ablation import PROJECTIONS, replaced_z
from tests.test_ablate import BARE, choices, losses

IDS = torch.arange(20, 40)[None]
S1 = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."


@pytest.fixture(scope="module")
def stories_model(stories):
    return load_model(stories)


@pytest.fixture(scope="module")
def story(stories_model):
    ids = stories_model.aligner.encode(S1).token_ids
    task = Task("story", "loss", (Item(ids, "s1", positions=tuple(range(1, len(ids)))),))
    return ids, task


def clean_steps(model, ids=IDS):
    with evaluating(model.plain):
        engine, kept = open_engine(model), []
        hidden = engine.start(ids)
        for layer in range(model.n_layers):
            step, hidden = engine.clean(layer, hidden)
            kept.append(step)
    return kept


@pytest.mark.real
def test_c05_c06_one_query_head_is_removed_at_z_and_its_neighbours_stay(stories_model, story):
    ids, task = story
    settings = Settings(damage=0, heads=("L3H6",))
    row = ablate(stories_model, task, ["zero"], settings=settings).table.iloc[0]
    assert row["clean"] == pytest.approx(0.1804, abs=5e-4)
    # The right slice; residual coordinates in its place would give 0.2143.
    assert row["clean"] + row["total"] == pytest.approx(0.1718, abs=5e-4)
    seen = []
    for kind in (None, "L3H6"):
        take = lambda layer, z: layer == 3 and seen.append(z)  # noqa: E731
        if kind is None:
            read_z(stories_model, torch.tensor([ids]), take)
        else:
            with without(stories_model, kind):
                read_z(stories_model, torch.tensor([ids]), take)
    clean, removed = seen
    assert torch.equal(clean[:, :, 7], removed[:, :, 7])
    group = ablate(stories_model, task, ["zero"], settings=Settings(damage=0, group="kv")).table
    assert "L3H6+L3H7" in set(group["heads"])


def test_c05_a_group_is_not_its_first_head(tiny):
    model, task = tiny("llama"), choices()
    single = ablate(model, task, ["zero"], settings=BARE).table.set_index("heads")["total"]
    group = Settings(damage=0, group="kv")
    both = ablate(model, task, ["zero"], settings=group).table.set_index("heads")["total"]
    for name, total in both.items():
        assert abs(total - single[name.split("+")[0]]) > 1e-4


@pytest.mark.parametrize("family", ["gpt2b", "llama", "gptj", "neox", "gemma2", "qwen3", "bert"])
def test_c07_writes_through_w_o_add_up_to_the_attention_output(tiny, family):
    model = tiny(family)
    for layer, step in enumerate(clean_steps(model)):
        total = torch.einsum("bphe,hed->bpd", step.z, model.W_O(layer))
        bias = model.b_O(layer)
        total = total if bias is None else total + bias
        torch.testing.assert_close(total, step.attn_out, atol=1e-4, rtol=1e-4)


def test_c07_transposed_weights_are_cut_along_the_right_axis(tiny):
    model = tiny("gpt2b")
    z = clean_steps(model)[0].z
    projection = model.plain.transformer.h[0].attn.c_proj
    with torch.no_grad():
        was = projection.weight[16:24].clone()
        with replaced_z(projection, [2], 8):
            by_hook = model.plain(IDS).logits.log_softmax(-1)
        projection.weight[16:24] = 0
        by_weight = model.plain(IDS).logits.log_softmax(-1)
        projection.weight[16:24] = was
        with without(model, "L0H2"):
            ours = model.plain(IDS).logits.log_softmax(-1)
    assert z.shape[-2:] == (4, 8)
    torch.testing.assert_close(ours, by_weight, atol=1e-4, rtol=0)
    torch.testing.assert_close(ours, by_hook, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", ["gpt2b", "neox", "bert"])
def test_c08_with_all_heads_of_a_layer_removed_the_output_bias_is_left(tiny, family):
    model, kept = tiny(family), {}
    projection = PROJECTIONS[family](model.plain, 0)
    handle = projection.register_forward_hook(lambda _m, _i, out: kept.update(out=out))
    try:
        with torch.no_grad(), without(model, ["L0H0", "L0H1", "L0H2", "L0H3"]):
            model.plain(IDS)
    finally:
        handle.remove()
    assert torch.equal(kept["out"], model.b_O(0).expand_as(kept["out"]))


@pytest.mark.parametrize("family", ["gpt2b", "llama"])
def test_c08_effects_of_a_layers_heads_together_leave_the_bias_too(tiny, family):
    model, task = tiny(family), choices(n=3)
    settings = Settings(damage=0, heads=("L1H0+L1H1+L1H2+L1H3",))
    rows = ablate(model, task, ["zero"], settings=settings).items("choices", "zero")
    projection = PROJECTIONS[family](model.plain, 1)
    bias = model.b_O(1)

    def only_bias(_module, _inputs, out):
        return torch.zeros_like(out) if bias is None else bias.expand_as(out)

    handle = projection.register_forward_hook(only_bias)
    try:
        for row in rows.itertuples():
            item = task.items[row.item]
            with torch.no_grad():
                logits = model.plain(torch.tensor([item.token_ids])).logits[0, item.position]
            left = (logits[item.answer] - logits[item.foil]).item()
            assert row.clean - row.total == pytest.approx(left, abs=1e-4)
    finally:
        handle.remove()


def test_c09_zero_ablation_says_what_it_did_to_value_biases(tiny):
    # Zero takes b_V W_O with it, zero_folded leaves it: two numbers, both recorded.
    found = ablate(tiny("gpt2b"), choices(), ["zero", "zero_folded"], settings=BARE)
    wide = found.table.pivot(index="heads", columns="ablation", values="total")
    assert (wide["zero"] - wide["zero_folded"]).abs().max() > 1e-3
    biases = found.manifest["settings"]["ablation"]["value_biases"]
    assert biases["layers"] == [0, 1]
    assert "b_V" in biases["zero"]
    none = ablate(tiny("llama"), choices(), ["zero", "zero_folded"], settings=BARE)
    wide = none.table.pivot(index="heads", columns="ablation", values="total")
    assert wide["zero"].equals(wide["zero_folded"])
    assert none.manifest["settings"]["ablation"]["value_biases"]["layers"] == []


def test_c09_zero_folded_is_zero_with_the_biases_folded_into_b_o(tiny):
    from tests import tiny_models

    module = tiny_models.build("gpt2b")
    with torch.no_grad():
        for block in module.transformer.h:
            bias = block.attn.c_attn.bias[64:].clone()
            block.attn.c_proj.bias += bias @ block.attn.c_proj.weight
            block.attn.c_attn.bias[64:] = 0
    folded = load_model(module, tokenizer=tiny_models.tokenizer_for("gpt2b"))
    one = ablate(tiny("gpt2b"), choices(), ["zero_folded"], settings=BARE).table
    other = ablate(folded, choices(), ["zero"], settings=BARE).table
    for column in ("total", "direct", "kl"):
        np.testing.assert_allclose(one[column], other[column], atol=2e-4)


def test_c10_an_error_at_the_third_head_leaves_the_model_as_it_was(tiny, monkeypatch):
    from rolecall.analyses import sweep as module

    model = tiny("llama")
    before = model.plain(IDS).logits
    hooks = sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.plain.modules())
    calls = []

    def broken(*args, **kwargs):
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("the metric breaks")
        return score(*args, **kwargs)

    monkeypatch.setattr(module, "score", broken)
    with pytest.raises(RuntimeError, match="breaks"):
        ablate(model, choices(), settings=BARE)
    assert torch.equal(model.plain(IDS).logits, before)
    parts = list(model.plain.modules())
    assert sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in parts) == hooks
    assert not any("forward" in vars(m) for m in parts)


def test_c11_hooks_that_the_user_put_there_are_still_there(tiny):
    model, calls = tiny("llama"), []
    handles = [
        model.plain.model.layers[0].self_attn.register_forward_hook(lambda *_: calls.append(1)),
        model.attention(0).hook_pattern.register_forward_hook(lambda *_: calls.append(2)),
    ]
    try:
        ablate(model, choices(), settings=BARE)
        calls.clear()
        model.plain(IDS)
        model.bridge.original_model(IDS)
    finally:
        for handle in handles:
            handle.remove()
    assert set(calls) == {1, 2}


def test_c12_a_mean_over_unequal_prompts_weighs_tokens_not_prompts(tiny):
    model = tiny("llama")
    prompts = [[1, *range(20, 20 + n)] for n in (12, 7, 18)]
    found = reference_means(model, [1], prompts)[1][1]
    kept = []
    for ids in prompts:
        read_z(model, torch.tensor([ids]), lambda layer, z: layer == 1 and kept.append(z[0, 1:]))
    right = torch.cat(kept).double().mean(0)
    prompt_mean = torch.stack([z.double().mean(0) for z in kept]).mean(0)
    torch.testing.assert_close(found, right, atol=1e-6, rtol=0)
    assert (found - prompt_mean).abs().max() > 1e-4


def test_c12_a_mean_from_the_other_half_says_how_it_was_taken(tiny):
    table = ablate(tiny("llama"), choices(n=24), ["mean"], settings=BARE).table
    assert set(table["replaced_by"]) == {"mean by position over the other half of the items"}
    table = ablate(tiny("llama"), choices(n=6), ["mean"], settings=BARE).table
    assert set(table["replaced_by"]) == {"mean over tokens of the other half of the items"}


def test_c12_a_mean_is_that_of_items_which_are_not_evaluated_with_it(tiny):
    # Two items: each is replaced by the other's mean, by hand.
    model, task = tiny("gpt2b"), choices(n=2)
    rows = ablate(model, task, ["mean"], settings=BARE).items("choices", "mean")
    for row in rows[rows["layer"] == 1].itertuples():
        item, other = task.items[row.item], task.items[1 - row.item]
        z = clean_steps(model, torch.tensor([other.token_ids]))[1].z[0]
        mean = torch.cat([z[:1], z[1:].mean(0, keepdim=True).expand(11, -1, -1)])
        projection = PROJECTIONS["gpt2b"](model.plain, 1)
        with replaced_z(projection, [row.head], 8, mean.flatten(1)[None]), torch.no_grad():
            logits = model.plain(torch.tensor([item.token_ids])).logits[0, item.position]
        left = (logits[item.answer] - logits[item.foil]).item()
        assert row.clean - row.total == pytest.approx(left, abs=1e-4)


@pytest.mark.parametrize("family", ["neox", "neox_sequential", "gptj"])
def test_c13_parallel_blocks_are_ablated_at_z_as_by_weights(tiny, family):
    from tests import tiny_models

    model, task = tiny(family), choices(n=3)
    settings = Settings(damage=0, heads=("L0H2",))
    rows = ablate(model, task, ["zero"], settings=settings).items("choices", "zero")
    module = tiny_models.build(family)
    projection = PROJECTIONS[family](module, 0)
    with torch.no_grad():
        projection.weight[:, 16:24] = 0
        for row in rows.itertuples():
            item = task.items[row.item]
            logits = module(torch.tensor([item.token_ids])).logits[0, item.position]
            left = (logits[item.answer] - logits[item.foil]).item()
            assert row.clean - row.total == pytest.approx(left, abs=1e-4)


def test_c14_behind_a_post_norm_heads_add_up_before_it_and_direct_is_approximate(tiny):
    model = tiny("gemma2")
    step = clean_steps(model)[0]
    total = torch.einsum("bphe,hed->bpd", step.z, model.W_O(0))
    torch.testing.assert_close(total, step.attn_out, atol=1e-4, rtol=1e-4)
    block = model.plain.model.layers[0]
    assert (block.post_attention_layernorm(total) - total).abs().max() > 0.1
    table = ablate(model, choices(), ["zero"], settings=BARE).table
    assert not table["direct_exact"].any()


def test_c15_capped_logits_are_capped_in_effects_too(tiny):
    model, task = tiny("gemma2"), losses()
    with evaluating(model.plain):
        engine = open_engine(model)
        assert engine.tail.cap == 30.0
        for batch in batches(task, model, tokens=512):
            out = model.plain(batch.token_ids)
            last = {}
            block = model.plain.model.layers[-1]
            handle = block.register_forward_hook(lambda _m, _i, o, k=last: k.update(x=o))
            model.plain(batch.token_ids)
            handle.remove()
            x = last["x"] if isinstance(last["x"], torch.Tensor) else last["x"][0]
            ours = engine.tail.logits(engine.tail.normed(x))
            torch.testing.assert_close(
                ours.log_softmax(-1), out.logits.log_softmax(-1), atol=1e-4, rtol=0
            )


def test_c24_a_loss_is_the_mean_over_marked_positions_of_each_item_alone(tiny):
    model, task = tiny("llama"), losses()
    rows = ablate(model, task, ["zero"], settings=BARE).items("losses", "zero")
    clean = rows.drop_duplicates("item").set_index("item")["clean"]
    for number, item in enumerate(task.items):
        with torch.no_grad():
            logits = model.plain(torch.tensor([item.token_ids])).logits[0].log_softmax(-1)
        right = [-logits[p - 1, item.token_ids[p]].item() for p in item.positions]
        assert clean[number] == pytest.approx(np.mean(right), abs=1e-5)


@pytest.mark.real
def test_c58_every_single_ablation_moves_some_logit(stories_model, story):
    ids, _ = story
    with torch.no_grad():
        clean = stories_model.plain(torch.tensor([ids])).logits
        for layer in range(5):
            for head in range(8):
                with without(stories_model, f"L{layer}H{head}"):
                    moved = stories_model.plain(torch.tensor([ids])).logits - clean
                assert moved.abs().max() > 0.5


@pytest.mark.real
def test_c58_measured_effects_of_stories(stories_model, story):
    _, task = story
    table = ablate(stories_model, task, ["zero"], settings=BARE).table.set_index("heads")["total"]
    assert len(table) == 40
    for head, effect in (("L3H1", 0.0353), ("L1H1", 0.0349), ("L0H2", 0.0319), ("L1H5", -0.0087)):
        assert table[head] == pytest.approx(effect, abs=5e-4)
    assert math.isclose(table.min(), table["L1H5"])
