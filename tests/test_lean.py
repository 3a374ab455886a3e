"""Working in place gives the same numbers, however a model gates."""

import pytest
import torch

from rolecall.analyses.anatomy import anatomy
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.lean import lean

FAMILIES = ("llama", "mistral", "qwen3", "gemma2", "lfm2", "gpt2", "gptj", "neox")


def logits(model, ids):
    with evaluating(model.plain):
        return model.plain(ids).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_a_lean_model_gives_the_same_logits_and_is_itself_again_afterwards(family, tiny):
    model = tiny(family)
    ids = torch.arange(24).reshape(2, 12) % model.d_vocab
    clean, parts = logits(model, ids), anatomy(model)
    with lean(parts):
        inside = logits(model, ids)
    torch.testing.assert_close(inside, clean, atol=1e-5, rtol=1e-5)
    assert torch.equal(logits(model, ids), clean)


def test_a_llama_works_in_place_in_its_mlp(tiny):
    parts = anatomy(tiny("llama"))
    with lean(parts):
        changed = {type(m).__name__ for m in parts.blocks[0].modules() if "forward" in vars(m)}
    assert changed == {"LlamaMLP"}
