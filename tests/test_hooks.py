"""Hooks: what is read is what the model makes, and nothing of ours is left behind."""

from __future__ import annotations

import pytest
import torch
from einops import einsum, rearrange

from rolecall.analyses.forward import evaluating, real_positions, require_ids, run_body, run_plain
from rolecall.analyses.hooks import hooked, read_patterns, require_rows
from rolecall.analyses.models import load_model
from tests import tiny_models
from tests.captured import patterns_of, z_of

IDS = torch.arange(20, 40).unsqueeze(0)
SOFTMAX = tuple(family for family in tiny_models.FAMILIES if family != "lfm2")


def count_hooks(model) -> int:
    parts = model.bridge.original_model.modules()
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in parts)


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_patterns_are_those_of_plain_eager_attention(tiny, family):
    model = tiny(family)
    plain = tiny_models.build(family)
    plain.set_attn_implementation("eager")
    with torch.no_grad():
        wanted = plain(IDS, output_attentions=True).attentions
    wanted = [pattern for pattern in wanted if pattern is not None]
    seen = patterns_of(model, IDS)
    assert tuple(seen) == model.pattern_layers
    for pattern, right in zip(seen.values(), wanted, strict=True):
        assert torch.allclose(pattern, right, atol=1e-6)


@pytest.mark.parametrize("family", SOFTMAX)
def test_z_is_the_pattern_over_the_values(tiny, family):
    model = tiny(family)
    inputs = {}

    def keep(_module, given, named):
        inputs["x"] = given[0] if given else named["hidden_states"]

    handle = model.attention(0).register_forward_pre_hook(keep, with_kwargs=True)
    try:
        z, pattern = z_of(model, IDS)[0], patterns_of(model, IDS)[0]
    finally:
        handle.remove()
    values = einsum(
        inputs["x"], model.W_V(0), "b key d_model, kv d_model d_head -> b kv key d_head"
    )
    bias = model.attention(0).b_V
    values = values if bias is None else values + rearrange(bias, "kv d_head -> 1 kv 1 d_head")
    values = values[:, [model.kv_group(head) for head in range(model.n_heads)]]
    right = einsum(pattern, values, "b head query key, b head key d_head -> b query head d_head")
    assert torch.allclose(z, right, atol=1e-5)


def test_z_has_a_place_for_every_head(tiny):
    for layer, z in z_of(tiny("qwen3"), IDS).items():
        assert layer in (0, 1)
        assert z.shape == (1, 20, 4, 16)


def test_no_logits_are_computed(tiny):
    model = tiny("llama")
    calls = []
    with hooked({model.bridge.unembed: lambda *_: calls.append(1)}):
        patterns_of(model, IDS)
    assert not calls


def test_writing_into_a_pattern_is_an_error_and_not_a_change(tiny):
    model = tiny("llama")
    before = run_body(model, IDS)
    with pytest.raises(ValueError, match="was written into"):
        read_patterns(model, IDS, lambda _layer, pattern: pattern.zero_())
    assert torch.equal(run_body(model, IDS), before)


def test_a_kept_pattern_stays_what_it_was(tiny):
    one, other = patterns_of(tiny("llama"), IDS), patterns_of(tiny("llama"), IDS + 3)
    again = patterns_of(tiny("llama"), IDS)
    assert all(torch.equal(one[layer], again[layer]) for layer in one)
    assert not torch.equal(one[0], other[0])


def test_hooks_go_when_a_visit_raises(tiny):
    model = tiny("llama")
    before, out = count_hooks(model), run_body(model, IDS)

    def visit(layer, _pattern):
        if layer == 1:
            raise KeyError("the third head")

    with pytest.raises(KeyError, match="the third head"):
        read_patterns(model, IDS, visit)
    assert count_hooks(model) == before
    assert torch.equal(run_body(model, IDS), out)


def test_a_hook_that_fires_twice_is_named(tiny):
    model = tiny("llama")
    again = model.attention(1).hook_pattern
    with (
        hooked({model.attention(0).hook_pattern: lambda _m, _i, pattern: again(pattern)}),
        pytest.raises(ValueError, match="layer 1 of LlamaForCausalLM fired 2 times"),
    ):
        patterns_of(model, IDS)


def test_evaluating_puts_every_part_back():
    module = tiny_models.build("gpt2").train()
    module.transformer.h[1].eval()
    modes = [part.training for part in module.modules()]
    with evaluating(module):
        assert not any(part.training for part in module.modules())
        assert not torch.is_grad_enabled()
    with pytest.raises(RuntimeError, match="stop"), evaluating(module):
        raise RuntimeError("stop")
    assert [part.training for part in module.modules()] == modes
    assert torch.is_grad_enabled()


def test_rows_that_do_not_sum_to_one_are_placed():
    pattern = torch.full((2, 3, 4, 4), 0.25)
    require_rows(pattern, layer=5, limit=1e-4)
    pattern[1, 2, 3] *= 1.5
    with pytest.raises(ValueError, match=r"L5H2 gives 1\.5 at position 3 of example 1"):
        require_rows(pattern, layer=5, limit=1e-4)


def test_real_positions_are_counted_from_the_left():
    mask = real_positions(torch.tensor([1, 3]), width=4)
    assert mask.tolist() == [[True, False, False, False], [True, True, True, False]]


def test_no_tokens_and_too_many_tokens_are_told(tiny):
    model = tiny("llama")
    with pytest.raises(ValueError, match="no tokens"):
        require_ids(model, torch.empty(0, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="length 65 is past the model's context of 64"):
        require_ids(model, torch.ones(1, 65, dtype=torch.long))


def test_a_bridge_alone_has_no_plain_form(tiny):
    model = load_model(tiny("llama").bridge)
    with pytest.raises(ValueError, match="no plain Hugging Face form"):
        run_plain(model, IDS)
