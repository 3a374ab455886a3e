"""Effects in families that call their blocks in ways of their own: ALiBi, a decoder in the body."""

from dataclasses import replace

import pytest
import torch
import transformers as hf

from rolecall.analyses import entrances
from rolecall.analyses.ablate import ablate
from rolecall.analyses.downstream import open_engine
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.models import load_model
from rolecall.analyses.paths import PathSettings, paths
from rolecall.analyses.screening import screen
from tests import tiny_models
from tests.plain_ablation import metric, replaced_z
from tests.test_ablate import BARE, choices, losses

IDS = {"vocab_size": 512, "bos_token_id": 1, "eos_token_id": 2}
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}


def bloom():
    sizes = {"hidden_size": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.2}
    return hf.BloomForCausalLM(hf.BloomConfig(**IDS, **sizes, pad_token_id=0))


def falcon():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    how = {"alibi": True, "multi_query": False, "parallel_attn": False, "initializer_range": 0.2}
    return hf.FalconForCausalLM(hf.FalconConfig(**IDS, **sizes, **how, attn_implementation="eager"))


def mpt():
    return hf.MptForCausalLM(
        hf.MptConfig(vocab_size=512, d_model=32, n_layers=2, n_heads=4, max_seq_len=64)
    )


def opt():
    sizes = {"hidden_size": 32, "ffn_dim": 64, "word_embed_proj_dim": 32, "init_std": 0.2}
    return hf.OPTForCausalLM(hf.OPTConfig(**IDS, **LAYERS, **sizes))


def phi3():
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_key_value_heads": 2}
    return hf.Phi3ForCausalLM(
        hf.Phi3Config(**IDS, **LAYERS, **sizes, pad_token_id=0, initializer_range=0.2)
    )


def starcoder():
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.2}
    return hf.GPTBigCodeForCausalLM(hf.GPTBigCodeConfig(**IDS, **sizes))


FAMILIES = {
    "bloom": (bloom, lambda m, layer: m.transformer.h[layer].self_attention.dense),
    "falcon": (falcon, lambda m, layer: m.transformer.h[layer].self_attention.dense),
    "mpt": (mpt, lambda m, layer: m.transformer.blocks[layer].attn.out_proj),
    "phi3": (phi3, lambda m, layer: m.model.layers[layer].self_attn.o_proj),
    "starcoder": (starcoder, lambda m, layer: m.transformer.h[layer].attn.c_proj),
    "opt": (opt, lambda m, layer: m.model.decoder.layers[layer].self_attn.out_proj),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    build, projection = FAMILIES[request.param]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = build().eval()
    return load_model(module, tokenizer=tiny_models.tokenizer_for("gpt2")), projection


@pytest.mark.parametrize("task", [choices(n=5), losses()], ids=lambda t: t.name)
def test_effects_equal_plain_hooked_forwards(family, task):
    model, projection = family
    found = ablate(model, task, ["zero"], settings=BARE)
    sign = 1 if task.metric == "logit_difference" else -1
    for row in found.items(task.name, "zero").itertuples():
        item = task.items[row.item]
        with replaced_z(projection(model.plain, row.layer), [row.head], model.d_head):
            changed = metric(model.plain, item)
        assert row.total == pytest.approx(sign * (metric(model.plain, item) - changed), abs=1e-4)
    assert found.table["direct_exact"].all()
    assert found.table["total"].abs().max() > 1e-3


def test_all_heads_of_the_last_layer_add_up_directly(family):
    model, _ = family
    heads = [f"L1H{head}" for head in range(4)]
    settings = replace(BARE, heads=(*heads, "+".join(heads)))
    direct = ablate(model, choices(), ["zero"], settings=settings).table.set_index("heads")
    together = direct.loc["+".join(heads), "direct"]
    assert together == pytest.approx(direct.loc[heads, "direct"].sum(), abs=1e-4)


def test_they_can_be_screened(family):
    model, _ = family
    assert screen(model, choices())["importance"].gt(0).all()


def test_values_move_no_attention_queries_and_keys_do(family):
    model, _ = family
    settings = PathSettings(senders=("L0H1",))
    rows = paths(model, choices(), "L1H2", settings=settings).set_index("entry")
    assert rows.loc["v", "moved"] == pytest.approx(0, abs=1e-6)
    assert rows.loc["q", "moved"] > 1e-5
    assert rows.loc["k", "moved"] > 1e-5
    assert abs(rows.loc["v", "total"]) > 1e-5


def test_queries_keys_and_values_in_another_order_are_noticed(monkeypatch, tiny):
    right = entrances._in_row
    monkeypatch.setattr(entrances, "_in_row", lambda number, model: right((number + 1) % 3, model))
    with pytest.raises(ValueError, match="cannot be told apart"):
        paths(tiny("gpt2b"), choices(), "L1H2", settings=PathSettings(senders=("L0H1",)))


def test_a_block_that_cannot_be_run_by_itself_is_an_error_that_names_the_model(monkeypatch, tiny):
    from rolecall.analyses import downstream

    def refuses(*_):
        raise TypeError("no such argument")

    monkeypatch.setattr(downstream.Call, "run", refuses)
    model = tiny("gpt2")
    with evaluating(model.plain), pytest.raises(ValueError, match="GPT2LMHeadModel cannot be run"):
        open_engine(model)
