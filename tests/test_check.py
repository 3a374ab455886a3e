"""The check: passes on every family, and names what is wrong when something is."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from rolecall.analyses.check import check, require
from rolecall.analyses.hooks import hooked
from rolecall.analyses.models import load_model
from tests import tiny_models


def failed(model):
    return [finding.name for finding in check(model) if not finding.ok]


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_every_family_passes(tiny, family):
    findings = check(tiny(family))
    assert [finding for finding in findings if not finding.ok] == []
    assert len(findings) == (6 if family in tiny_models.ENCODERS else 7)
    require(tiny(family))


def test_a_sequence_can_be_given(tiny):
    assert all(finding.ok for finding in check(tiny("llama"), torch.tensor([[1, 300, 301, 300]])))


def test_the_same_model_gives_the_same_findings(tiny):
    assert check(tiny("gpt2b")) == check(tiny("gpt2b"))


def test_a_pattern_that_was_scaled_is_named(tiny):
    model = tiny("llama")
    with hooked({model.attention(1).hook_pattern: lambda _m, _i, out: out * 0.9}):
        found = {finding.name: finding for finding in check(model) if not finding.ok}
        with pytest.raises(ValueError, match="rows of every pattern sum to 1"):
            require(model)
    rows = found["rows of every pattern sum to 1"]
    assert rows.measured == pytest.approx(0.1, abs=1e-5)
    assert rows.detail == "most in layer 1"


def test_an_output_that_is_not_the_sum_of_its_heads_is_named(tiny):
    model = tiny("llama")
    with hooked({model.attention_output(0): lambda _m, _i, out: out + 1}):
        assert "heads and b_O sum to the attention output" in failed(model)


def test_a_layer_whose_heads_do_nothing_is_named():
    module = tiny_models.build("llama")
    with torch.no_grad():
        module.model.layers[1].self_attn.o_proj.weight.zero_()
    assert failed(load_model(module)) == ["removing a head moves the output"]


def test_a_hooked_model_that_is_not_the_plain_one_is_named(tiny):
    model = dataclasses.replace(tiny("llama"), plain=tiny_models.build("llama", seed=1))
    assert failed(model) == ["log-probabilities equal plain Hugging Face"]


def test_a_look_at_the_future_is_named(tiny):
    model = tiny("llama")
    with hooked({model.attention(0).hook_pattern: lambda _m, _i, out: out.flip(-1)}):
        assert "no attention to later tokens" in failed(model)


def test_a_hook_that_fires_twice_is_named(tiny):
    model = tiny("llama")
    again = model.attention(1).hook_pattern
    with hooked({model.attention(0).hook_pattern: lambda _m, _i, pattern: again(pattern)}):
        assert failed(model) == ["every hook fires once a forward pass"]
        with pytest.raises(ValueError, match="pattern in layer 1: 2 times"):
            require(model)


def test_the_plain_model_keeps_its_attention(tiny):
    model = tiny("llama")
    model.plain.set_attn_implementation("sdpa")
    check(model)
    assert model.plain.config._attn_implementation == "sdpa"
    assert model.bridge.original_model.config._attn_implementation == "eager"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_passes_with_its_own_limits(dtype):
    model = load_model(tiny_models.build("gemma2").to(dtype))
    assert model.dtype == dtype
    assert failed(model) == []


@pytest.mark.real
def test_the_real_decoders_pass(stories, smollm2):
    for folder in (stories, smollm2):
        require(load_model(folder))
