"""Faults that people really hit when they load and hook a model, one test a case."""

from __future__ import annotations

import gc
import importlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from einops import einsum

from rolecall.analyses.check import check
from rolecall.analyses.forward import real_positions, run_body, run_logits
from rolecall.analyses.hooks import hooked, read_patterns, require_rows, split_heads
from rolecall.analyses.models import load_model
from tests import tiny_models
from tests.captured import patterns_of, z_of

ROOT = Path(__file__).resolve().parents[1]
IDS = torch.arange(20, 40).unsqueeze(0)
S1 = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
S2 = "Once upon a time"
S4 = "Once upon a time, there was a little girl named Lily."


def log_probs(model, ids):
    with torch.no_grad():
        return run_logits(model, ids).log_softmax(dim=-1)


def without(model, layer, *heads):
    """The hook that replaces these heads' z by zero."""

    def hook(_module, _inputs, output):
        z = split_heads(output, model.n_heads).clone()
        z[:, :, list(heads)] = 0
        return z.flatten(start_dim=2)

    return {model.attention(layer).o.hook_in: hook}


def ids_of(model, text):
    ids = model.tokenizer(text, add_special_tokens=False).input_ids
    return torch.tensor([[model.aligner.bos, *ids]])


def mean_loss(model, ids):
    scores = log_probs(model, ids)[:, :-1]
    return -scores.gather(-1, ids[:, 1:, None]).mean().item()


@pytest.fixture(scope="module")
def real(stories):
    """stories260K, loaded."""
    return load_model(stories)


def test_c01_only_the_bridge_is_used(tiny):
    with pytest.raises(ImportError):
        importlib.import_module("transformer_lens").HookedTransformer  # noqa: B018
    named = [path.name for path in ROOT.glob("*/*.py") if "transformer_lens" in path.read_text()]
    ours = [name for name in named if not name.startswith("test_")]
    assert ours == ["models.py"]
    assert type(tiny("llama").bridge).__name__ == "TransformerBridge"


def test_c02_a_pattern_can_be_edited_and_fused_attention_is_refused(tiny):
    model = load_model(tiny_models.build("llama"))

    def uniform(_module, _inputs, pattern):
        even = torch.ones_like(pattern).tril()
        return even / even.sum(dim=-1, keepdim=True)

    before = log_probs(model, IDS)
    with hooked({model.attention(1).hook_pattern: uniform}):
        assert not torch.allclose(log_probs(model, IDS), before, atol=1e-3)
    model.bridge.original_model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match="only by eager attention"):
        patterns_of(model, IDS)
    with pytest.raises(ValueError, match="only by eager attention"):
        check(model)


def test_c04_every_query_head_finds_its_group(tiny):
    model = tiny("llama")
    assert [model.kv_group(head) for head in range(4)] == [0, 0, 1, 1]
    assert model.W_V(0).shape[0] == model.n_kv_heads == 2
    assert all(pattern.shape[1] == 4 for pattern in patterns_of(model, IDS).values())


@pytest.mark.real
def test_c04_head_6_of_stories_uses_group_3(real):
    assert real.kv_group(6) == 3
    assert real.W_V(0).shape == (4, 64, 8)
    ids = ids_of(real, S1)
    inputs = {}

    def keep(_module, given, named):
        inputs["x"] = given[0] if given else named["hidden_states"]

    handle = real.attention(2).register_forward_pre_hook(keep, with_kwargs=True)
    z, pattern = z_of(real, ids)[2], patterns_of(real, ids)[2]
    handle.remove()
    for head in range(8):
        values = inputs["x"][0] @ real.W_V(2)[head // 2]
        assert torch.allclose(z[0, :, head], pattern[0, head] @ values, atol=1e-5)


def test_c05_one_query_head_of_a_group_can_be_removed_alone(tiny):
    model = tiny("llama")
    layer, removed = 1, 2
    before = z_of(model, IDS)[layer]
    with hooked(without(model, layer, removed)):
        after = z_of(model, IDS)[layer]
    assert after[:, :, removed].abs().max() == 0
    others = [head for head in range(4) if head != removed]
    assert torch.equal(after[:, :, others], before[:, :, others])


def test_c05_removing_a_value_group_is_removing_all_its_query_heads(tiny):
    model = tiny("llama")

    def no_values(_module, _inputs, output):
        values = split_heads(output, model.n_kv_heads).clone()
        values[:, :, 1] = 0
        return values.flatten(start_dim=2)

    with hooked({model.attention(0).v.hook_out: no_values}):
        by_group = log_probs(model, IDS)
    with hooked(without(model, 0, 2, 3)):
        assert torch.equal(log_probs(model, IDS), by_group)


@pytest.mark.real
def test_c06_the_input_of_the_output_projection_is_cut(real):
    ids = ids_of(real, S1)
    assert mean_loss(real, ids) == pytest.approx(0.1804, abs=5e-4)
    with hooked(without(real, 3, 6)):
        assert mean_loss(real, ids) == pytest.approx(0.1718, abs=5e-4)


@pytest.mark.parametrize("family", ["gpt2b", "llama", "qwen3", "neox", "bert"])
def test_c07_rows_of_w_o_are_the_heads(tiny, family):
    """Removing a head's z is the same as zeroing its rows of W_O."""
    model = tiny(family)
    with hooked(without(model, 0, 2)):
        by_z = log_probs(model, IDS)
    cut = load_model(tiny_models.build(family))
    with torch.no_grad():
        # W_O is a view of the weight as it is stored, whatever way round that is.
        cut.W_O(0)[2].zero_()
    assert torch.allclose(log_probs(cut, IDS), by_z, atol=1e-4)
    assert not torch.allclose(log_probs(model, IDS), by_z, atol=1e-3)


def test_c08_without_heads_the_bias_is_left(tiny):
    model = tiny("gpt2b")
    kept = []
    hooks = {
        **without(model, 0, 0, 1, 2, 3),
        model.attention_output(0): lambda *a: kept.append(a[2]),
    }
    with hooked(hooks):
        run_body(model, IDS)
    assert torch.equal(kept[0], model.b_O(0).expand_as(kept[0]))


def test_c08_a_model_without_biases_has_none(tiny):
    assert tiny("llama").b_O(0) is None


def test_c10_after_an_error_the_model_is_as_it_was(tiny):
    model = tiny("llama")
    before = log_probs(model, IDS)

    def visit(layer, _pattern):
        if layer == 1:
            raise RuntimeError("a metric failed")

    with pytest.raises(RuntimeError, match="a metric failed"), hooked(without(model, 0, 1)):
        read_patterns(model, IDS, visit)
    assert torch.equal(log_probs(model, IDS), before)
    for layer in model.pattern_layers:
        for point in (model.attention(layer).hook_pattern, model.attention(layer).o.hook_in):
            assert not point._forward_hooks


def test_c11_a_users_hook_stays_and_counts():
    model = load_model(tiny_models.build("llama"))
    calls = []
    point = model.bridge.blocks[0].attn.hook_pattern
    point.add_hook(lambda tensor, hook: calls.append(1))
    patterns_of(model, IDS)
    check(model)
    before = len(calls)
    assert before
    run_body(model, IDS)
    assert len(calls) == before + 1
    assert len(point.fwd_hooks) == 1


@pytest.mark.parametrize(
    ("family", "parallel"), [("neox", True), ("neox_sequential", False), ("gptj", True)]
)
def test_c13_parallel_blocks_are_told_from_sequential_ones(tiny, family, parallel):
    model = tiny(family)
    assert model.parallel is parallel
    assert hasattr(model.bridge.blocks[0], "hook_resid_mid") is not parallel
    with hooked(without(model, 1, 0)):
        by_z = log_probs(model, IDS)
    cut = load_model(tiny_models.build(family))
    with torch.no_grad():
        cut.W_O(1)[0].zero_()
    assert torch.allclose(log_probs(cut, IDS), by_z, atol=1e-4)


@pytest.mark.parametrize("family", ["gemma2", "bert"])
def test_c14_heads_sum_to_the_output_before_the_norm(tiny, family):
    model = tiny(family)
    assert model.post_norm
    before, after = [], []
    hooks = {
        model.attention_output(0): lambda *a: before.append(a[2]),
        model.bridge.blocks[0].hook_attn_out: lambda *a: after.append(a[2]),
    }
    with hooked(hooks):
        z = z_of(model, IDS)[0]
    total = einsum(z, model.W_O(0), "b pos head d_head, head d_head d_model -> b pos d_model")
    total = total if model.b_O(0) is None else total + model.b_O(0)
    assert torch.allclose(total, before[0], atol=1e-5)
    assert not torch.allclose(total, after[0], atol=1e-2)


def test_c15_capped_logits_equal_plain_hugging_face(tiny):
    model = tiny("gemma2")
    assert model.softcap == 30.0
    plain = tiny_models.build("gemma2")
    plain.set_attn_implementation("eager")
    with torch.no_grad():
        right = plain(IDS).logits.log_softmax(dim=-1)
    assert torch.allclose(log_probs(model, IDS), right, atol=1e-4)


def test_c15_an_uncapped_model_says_so(tiny):
    assert tiny("llama").softcap is None


@pytest.mark.real
def test_c16_log_probabilities_agree_where_raw_logits_do_not(stories):
    plain, folded = load_model(stories), load_model(stories, processing="compatibility")
    ids = ids_of(plain, S2)
    raw = (run_logits(plain, ids) - run_logits(folded, ids)).abs().max()
    assert raw > 1
    assert torch.allclose(log_probs(plain, ids), log_probs(folded, ids), atol=1e-4)
    last = check(plain)[-1]
    assert last.ok
    assert last.detail == "BOS 1"


def test_c17_the_width_of_a_head_is_the_models_own(tiny):
    model = tiny("qwen3")
    assert model.d_head == 16
    assert model.d_model // model.n_heads == 8
    before = log_probs(model, IDS)
    for head in range(4):
        with hooked(without(model, 0, head)):
            assert not torch.allclose(log_probs(model, IDS), before, atol=1e-4)


def test_c19_layers_keep_their_true_numbers(tiny):
    model = tiny("lfm2")
    assert model.n_layers == 4
    assert model.pattern_layers == (1, 2)
    assert tuple(patterns_of(model, IDS)) == (1, 2)
    assert tuple(z_of(model, IDS)) == (1, 2)


@pytest.mark.parametrize("family", tiny_models.DECODERS)
def test_c20_nothing_stands_above_the_diagonal(tiny, family):
    for pattern in patterns_of(tiny(family), IDS).values():
        assert pattern.triu(diagonal=1).abs().max() == 0


@pytest.mark.parametrize("family", ["mistral", "gemma2"])
def test_c20_keys_out_of_the_window_are_not_seen(tiny, family):
    """The window is 8: a query sees itself and the seven before it (Gemma-2: in even layers)."""
    seen = patterns_of(tiny(family), IDS)
    windowed = [0, 1] if family == "mistral" else [0]
    hidden = torch.ones(20, 20).tril(diagonal=-8).bool()
    for layer in windowed:
        assert seen[layer][..., hidden].abs().max() == 0
        assert seen[layer].diagonal(offset=-7, dim1=-2, dim2=-1).min() > 0
    if family == "gemma2":
        assert seen[1][..., hidden].max() > 0


@pytest.mark.parametrize("family", ["llama", "gpt2b", "mistral", "bert", "bert_body"])
def test_c21_an_example_scores_the_same_alone_and_padded(tiny, family):
    model = tiny(family)
    short, long = IDS[:, :5], IDS
    alone = patterns_of(model, short)
    padded = torch.cat([torch.nn.functional.pad(short, (0, 15), value=0), long])
    seen = patterns_of(model, padded, lengths=torch.tensor([5, 20]))
    for layer, pattern in alone.items():
        assert torch.allclose(seen[layer][:1, :, :5, :5], pattern, atol=1e-5)
        assert seen[layer][0, :, :5, 5:].abs().max() == 0


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_c23_padding_is_told_by_lengths_and_not_by_its_id(tiny, family):
    """Id 0 pads, and is the true first token too."""
    mask = real_positions(torch.tensor([3]), width=5)
    assert mask.tolist() == [[True, True, True, False, False]]
    model, lengths = tiny(family), torch.tensor([3])
    zeros = patterns_of(model, torch.tensor([[0, 5, 7, 0, 0]]), lengths=lengths)
    twos = patterns_of(model, torch.tensor([[0, 5, 7, 2, 2]]), lengths=lengths)
    for layer, pattern in zeros.items():
        assert torch.equal(pattern[:, :, :3], twos[layer][:, :, :3])
        assert pattern[:, :, :3, 0].min() > 0


def test_c24_padding_does_not_reach_what_is_predicted(tiny):
    """Real positions have the same log-probabilities whatever the pads are."""
    model, lengths = tiny("llama"), torch.tensor([5])
    one, other = (torch.nn.functional.pad(IDS[:, :5], (0, 3), value=pad) for pad in (0, 2))
    scores = [run_logits(model, ids, lengths)[:, :5] for ids in (one, other)]
    assert torch.equal(*scores)
    assert torch.allclose(scores[0], run_logits(model, IDS[:, :5]), atol=1e-5)


def test_c25_a_row_of_padding_may_hold_anything():
    pattern = torch.full((1, 2, 3, 3), 1 / 3)
    pattern[0, :, 2] = torch.nan
    require_rows(pattern, layer=0, limit=1e-4, lengths=torch.tensor([2]))
    with pytest.raises(ValueError, match="L0H0 gives nan at position 2 of example 0"):
        require_rows(pattern, layer=0, limit=1e-4)


def test_c25_a_weight_that_is_not_a_number_is_placed():
    module = tiny_models.build("llama")
    with torch.no_grad():
        module.model.layers[1].self_attn.q_proj.weight[8:16] = torch.nan
    with pytest.raises(ValueError, match="L1H1 gives nan at position 0 of example 0"):
        patterns_of(load_model(module), IDS)


def test_c27_the_bos_that_was_used_is_recorded(tiny):
    module, tokenizer = tiny("llama").plain, tiny("llama").tokenizer
    kept = {bos: load_model(module, tokenizer=tokenizer, bos=bos) for bos in ("auto", False)}
    assert kept["auto"].facts["bos"] == {"policy": "auto", "id": 1}
    assert kept[False].facts["bos"] == {"policy": False, "id": None}


@pytest.mark.parametrize(("ids", "wrong"), [([1, -1, 403], "-1"), ([1, 600, 403], "600")])
def test_c42_an_id_out_of_range_is_named(tiny, ids, wrong):
    with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of 512"):
        patterns_of(tiny("llama"), torch.tensor([ids]))


def test_c47_dropout_is_off_and_training_mode_comes_back():
    module = tiny_models.build("gpt2").train()
    model = load_model(module)
    one, other = patterns_of(model, IDS), patterns_of(model, IDS)
    assert all(torch.equal(one[layer], other[layer]) for layer in one)
    assert all(finding.ok for finding in check(model))
    assert module.training
    assert model.bridge.original_model.training


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2b"])
def test_c48_patterns_of_half_precision_come_in_float32_and_near(tiny, family):
    half = load_model(tiny_models.build(family).to(torch.bfloat16))
    assert half.facts["dtype"] == "bfloat16"
    for layer, pattern in patterns_of(half, IDS).items():
        assert pattern.dtype == torch.float32
        near = patterns_of(tiny(family), IDS)[layer]
        assert (pattern - near).abs().mean() < 0.02


def test_c49_batch_size_and_order_change_nothing(tiny):
    model = tiny("llama")
    ids = torch.stack([IDS[0], IDS[0] + 100, IDS[0] + 200])
    whole = patterns_of(model, ids)
    turned = patterns_of(model, ids.flip(0))
    for row in range(3):
        alone = patterns_of(model, ids[row : row + 1])
        for layer in whole:
            assert torch.allclose(alone[layer][0], whole[layer][row], atol=1e-5)
            assert torch.allclose(turned[layer][2 - row], whole[layer][row], atol=1e-5)


@pytest.mark.real
@pytest.mark.slow
def test_c50_memory_holds_one_layer_at_a_time(real):
    """64 sequences of 512 in batches of 4: one pattern is 32 MiB, all of them would be 2.6 GB."""
    ids = torch.randint(3, 512, (64, 512), generator=torch.Generator().manual_seed(0))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = torch.zeros(real.n_layers, real.n_heads)

    def visit(layer, pattern):
        total[layer] += pattern.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=(0, 2))

    for batch in ids.split(4):
        read_patterns(real, batch, visit)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1_000_000
    assert total.argmax() in (8 * 3 + 6, 8 * 1 + 3)


def test_c51_a_folder_loads_without_network(tmp_path):
    """In its own process, so that the offline switch is read as a user sets it."""
    folder = tiny_models.save("llama", tmp_path / "tiny")
    code = f"from rolecall.analyses import load_model; print(load_model({str(folder)!r}).name)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("tiny\n", "")


def test_c51_a_wrong_folder_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="has no config") as error:
        load_model(empty)
    assert "\n" not in str(error.value)


@pytest.mark.real
def test_c58_every_head_of_stories_moves_some_logit(real):
    ids = ids_of(real, S1)
    before = run_logits(real, ids)
    for layer in range(5):
        for head in range(8):
            with hooked(without(real, layer, head)):
                moved = (run_logits(real, ids) - before).abs().max()
            assert moved > 0.5, f"L{layer}H{head}"
