"""`without`: the user runs the model, the named heads write something else, nothing stays."""

import pytest
import torch

from rolecall.analyses.hooks import read_z
from rolecall.analyses.without import reference_means, without
from tests.plain_ablation import PROJECTIONS, replaced_z

FAMILIES = ("gpt2b", "llama", "gemma2", "neox", "qwen3", "bert")
IDS = torch.tensor([[1, *range(20, 31)]])


@torch.no_grad()
def logits(model, ids=IDS):
    return model.plain(ids).logits


@torch.no_grad()
def hooked_logits(model, ids=IDS):
    out = model.bridge.original_model(ids)
    return out.logits


def n_hooks(model):
    parts = [*model.plain.modules(), *model.bridge.modules()]
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in parts)


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_are_off_inside_in_both_forms_of_the_model_and_on_again_after(tiny, family):
    model = tiny(family)
    clean, hooked = logits(model), hooked_logits(model)
    with replaced_z(PROJECTIONS[family](model.plain, 1), [2], model.d_head):
        right = logits(model)
    with without(model, "L1H2"):
        torch.testing.assert_close(logits(model), right)
        torch.testing.assert_close(hooked_logits(model), right, atol=1e-4, rtol=1e-4)
    assert torch.equal(logits(model), clean)
    assert torch.equal(hooked_logits(model), hooked)
    assert not torch.equal(right, clean)


def test_several_heads_of_several_layers_go_together(tiny):
    model = tiny("llama")
    project = PROJECTIONS["llama"]
    with (
        replaced_z(project(model.plain, 0), [1, 3], model.d_head),
        replaced_z(project(model.plain, 1), [0], model.d_head),
    ):
        right = logits(model)
    with without(model, ["L0H1+L1H0", "L0H3"]):
        torch.testing.assert_close(logits(model), right)


def test_a_head_resampled_from_the_input_itself_changes_nothing(tiny):
    model = tiny("gpt2b")
    clean = logits(model)
    with without(model, ["L0H0", "L1H3"], kind="resample", twin=IDS):
        torch.testing.assert_close(logits(model), clean)


def test_zero_folded_leaves_the_value_bias(tiny):
    # z is b_V plus what the pattern picks: with rows that sum to 1, the bias comes through whole.
    model = tiny("gpt2b")
    bias = model.plain.transformer.h[1].attn.c_attn.bias[64:].detach()
    with replaced_z(PROJECTIONS["gpt2b"](model.plain, 1), [2], 8, bias.expand(1, 12, 32)):
        right = logits(model)
    with without(model, "L1H2", kind="zero_folded"):
        torch.testing.assert_close(logits(model), right)
    with without(model, "L1H2", kind="zero"):
        assert not torch.allclose(logits(model), right, atol=1e-3)


def test_the_mean_is_over_tokens_of_the_reference_and_the_first_position_by_itself(tiny):
    model = tiny("gpt2")
    reference = [[1, 30, 31], [1, 40, 41, 42, 43]]
    kept = []
    for ids in reference:
        read_z(model, torch.tensor([ids]), lambda layer, z: layer == 1 and kept.append(z[0]))
    start = torch.stack([z[0] for z in kept]).mean(0)
    # Six other tokens, each with the same weight: not the mean of the two prompts' means.
    rest = torch.cat([z[1:] for z in kept]).mean(0)
    found = reference_means(model, [1], reference)[1]
    torch.testing.assert_close(found.float(), torch.stack([start, rest]))
    value = torch.cat([start[None], rest.expand(11, -1, -1)]).flatten(1)[None]
    with replaced_z(PROJECTIONS["gpt2"](model.plain, 1), [3], 8, value):
        right = logits(model)
    with without(model, "L1H3", kind="mean", reference=reference):
        torch.testing.assert_close(logits(model), right)


def test_without_a_reference_of_ones_own_natural_text_is_taken(tiny):
    model = tiny("gpt2")
    with without(model, "L1H3", kind="mean"):
        assert not torch.allclose(logits(model), logits(tiny("llama")))


def test_c10_an_error_inside_leaves_nothing_behind(tiny):
    model = tiny("gpt2b")
    clean, before = logits(model), n_hooks(model)

    def interrupted():
        with without(model, "L0H1"):
            assert n_hooks(model) == before + 2
            raise RuntimeError("the user's")

    with pytest.raises(RuntimeError, match="user"):
        interrupted()
    assert torch.equal(logits(model), clean)
    assert n_hooks(model) == before


def test_c11_hooks_of_the_user_still_fire_inside_and_after(tiny):
    model, calls = tiny("gpt2b"), []
    projection = PROJECTIONS["gpt2b"](model.plain, 0)
    handle = projection.register_forward_hook(lambda *_: calls.append(1))
    try:
        with without(model, "L0H1"):
            logits(model)
        logits(model)
    finally:
        handle.remove()
    assert len(calls) == 2


def test_a_twin_of_another_shape_is_told_with_both_shapes(tiny):
    model = tiny("gpt2")
    with (
        without(model, "L0H1", kind="resample", twin=IDS[:, :5]),
        pytest.raises(ValueError, match=r"twin has the shape \(1, 5\), the input \(1, 12\)"),
    ):
        logits(model)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"heads": "L7H0"}, "2 layers"),
        ({"heads": "head one"}, "named like L5H1"),
        ({"heads": []}, "no head is named"),
        ({"heads": "L0H0", "kind": "noise"}, "not by 'noise'"),
        ({"heads": "L0H0", "kind": "resample"}, "give the token ids of the twin"),
        ({"heads": "L0H0", "kind": "mean", "reference": []}, "needs a reference set"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(tiny, arguments, says):
    with pytest.raises(ValueError, match=says), without(tiny("gpt2"), **arguments):
        pass
