"""Weights against brute force: the whole vocabulary square, the whole circuit products."""

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from rolecall.analyses.circuits import Circuits, circuits, embeddings, unembedding
from rolecall.analyses.composition import composition, factors, random_composition
from rolecall.analyses.copying import diagonal_rank, eigen_positivity, spread
from rolecall.analyses.models import load_model
from rolecall.analyses.positional_qk import rotated
from rolecall.analyses.weights import weights

V = 40


def llama(**changes):
    config = LlamaConfig(
        vocab_size=V, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, **changes,
    )  # fmt: skip
    module = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" in name:
                parameter.copy_(1 + 0.3 * torch.randn_like(parameter))
    return module


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return load_model(llama())


@pytest.fixture(scope="module")
def gpt2():
    torch.manual_seed(1)
    module = GPT2LMHeadModel(
        GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    ).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return load_model(module)


def by_brute_force(module, layer, head):
    """Every token's effect through one head on every token's logit; GQA and gains by hand."""
    block, config = module.model.layers[layer], module.config
    width = config.head_dim
    group = head // (config.num_attention_heads // config.num_key_value_heads)
    table = module.model.embed_tokens.weight
    rows = table / table.square().mean(-1, keepdim=True).sqrt() * block.input_layernorm.weight
    value = block.self_attn.v_proj.weight[group * width : (group + 1) * width]
    out = block.self_attn.o_proj.weight[:, head * width : (head + 1) * width]
    return rows @ value.T @ out.T * module.model.norm.weight @ module.lm_head.weight.T


@torch.no_grad()
def test_copying_equals_the_whole_vocabulary_square(model):
    embedding, unembed = embeddings(model), unembedding(model)
    for layer in (0, 1):
        made = circuits(model, layer)
        found = eigen_positivity(made, unembed @ embedding)
        rank = diagonal_rank(made, embedding, unembed)
        for head in range(4):
            whole = by_brute_force(model.plain, layer, head)
            eigen = torch.linalg.eigvals(whole.double())
            assert found[head].item() == pytest.approx(
                (eigen.real.sum() / eigen.abs().sum()).item(), abs=1e-4
            )
            below = (whole < whole.diagonal()[:, None]).sum(dim=1) / (V - 1)
            assert rank[head].item() == pytest.approx(below.mean().item(), abs=1e-6)


@torch.no_grad()
def test_c04_query_heads_use_the_values_of_their_group(model):
    made = circuits(model, 0)
    assert torch.equal(made.V[0], made.V[1])
    assert torch.equal(made.K[2], made.K[3])
    assert not torch.equal(made.V[1], made.V[2])


@torch.no_grad()
def test_layer_norm_is_folded_with_its_mean(gpt2):
    made = circuits(gpt2, 1)
    stream = torch.randn(3, 32)
    block = gpt2.plain.transformer.h[1]
    change = block.ln_1(stream) - block.ln_1.bias
    scale = (stream - stream.mean(-1, keepdim=True)).square().mean(-1, keepdim=True) + 1e-5
    value = block.attn.c_attn.weight[:, 64 + 8 : 64 + 16]  # head 1: eight columns after q and k
    torch.testing.assert_close(
        change @ value * scale.sqrt(), stream @ made.V[1], atol=1e-4, rtol=1e-3
    )


def test_a_copying_head_and_its_opposite_are_told_apart():
    torch.manual_seed(3)
    embedding = torch.randn(V, 16)
    read = torch.randn(1, 16, 4)
    zero = torch.zeros(1, 16, 4)
    copies = Circuits(zero, zero, read, read.mT)
    against = Circuits(zero, zero, read, -read.mT)
    cyclic = embedding.T @ embedding
    assert eigen_positivity(copies, cyclic).item() == pytest.approx(1.0, abs=1e-5)
    assert eigen_positivity(against, cyclic).item() == pytest.approx(-1.0, abs=1e-5)
    assert diagonal_rank(copies, embedding, embedding.T).item() > 0.8
    assert diagonal_rank(against, embedding, embedding.T).item() < 0.2
    nothing = Circuits(zero, zero, zero, zero.mT)
    assert eigen_positivity(nothing, cyclic).item() == 0.0


def test_a_sample_of_tokens_ranks_nearly_as_all_of_them():
    torch.manual_seed(4)
    embedding, read = torch.randn(600, 16), torch.randn(1, 16, 4)
    zero = torch.zeros(1, 16, 4)
    made = Circuits(zero, zero, read, read.mT)
    whole = diagonal_rank(made, embedding, embedding.T, n_sources=600)
    part = diagonal_rank(made, embedding, embedding.T, n_sources=200, n_rivals=300)
    assert part.item() == pytest.approx(whole.item(), abs=0.04)
    assert spread(600, 200).unique().numel() == 200


def test_composition_equals_the_products_of_whole_circuits():
    torch.manual_seed(5)
    one = Circuits(*(torch.randn(3, 20, 4) for _ in range(3)), torch.randn(3, 4, 20))
    two = Circuits(*(torch.randn(2, 20, 4) for _ in range(3)), torch.randn(2, 4, 20))
    reads = {
        "q": two.Q @ two.K.mT,
        "k": two.K @ two.Q.mT,
        "v": two.V @ two.O,
    }
    for kind, into in reads.items():
        found = composition(factors(one).out, factors(two).reads[kind])
        for sender in range(3):
            for head in range(2):
                out = one.V[sender] @ one.O[sender]
                whole = (out @ into[head]).norm() / (out.norm() * into[head].norm())
                assert found[sender, head].item() == pytest.approx(whole.item(), abs=1e-5)


def test_random_circuits_compose_by_the_root_of_the_width():
    assert random_composition(64, 8, seed=0) == pytest.approx(64**-0.5, rel=0.05)
    assert random_composition(64, 8, seed=0) == random_composition(64, 8, seed=0)


def test_the_rotated_form_equals_rotating_query_and_key():
    torch.manual_seed(6)
    query, key = torch.randn(2, 10), torch.randn(2, 10)
    frequencies = torch.tensor([1.0, 0.3, 0.1])
    found = rotated(query, key, frequencies, 5)

    def turn(x, position):
        angle = frequencies * position
        first, second, still = x[:, :3], x[:, 3:6], x[:, 6:]
        a = first * angle.cos() - second * angle.sin()
        b = second * angle.cos() + first * angle.sin()
        return torch.cat([a, b, still], dim=-1)

    for offset in range(5):
        by_hand = (turn(query, 11) * turn(key, 11 - offset)).sum(dim=-1)
        torch.testing.assert_close(found[:, offset], by_hand, atol=1e-5, rtol=1e-5)


def test_a_rotary_head_made_for_the_token_before_is_found(tmp_path):
    torch.manual_seed(7)
    module = llama(tie_word_embeddings=False)
    attention = module.model.layers[0].self_attn
    with torch.no_grad():
        module.model.embed_tokens.weight.mul_(0.05)
        module.model.embed_tokens.weight[:, 0] = 3.0  # every token has this in common
        module.model.layers[0].input_layernorm.weight.fill_(1.0)
        half = module.config.head_dim // 2
        attention.q_proj.weight.zero_()
        attention.k_proj.weight.zero_()
        frequencies = module.model.rotary_emb.inv_freq
        # Query head 1 and its group's key: in phase where the key is one to the left.
        start = module.config.head_dim
        attention.q_proj.weight[start : start + half, 0] = frequencies.cos() * 3
        attention.q_proj.weight[start + half : start + 2 * half, 0] = -frequencies.sin() * 3
        attention.k_proj.weight[:half, 0] = 3.0
    table = weights(load_model(module), out=tmp_path).table.set_index(["layer", "head"])
    assert table.loc[(0, 1), "qk_previous_token"] > 0.5
    assert table.loc[(0, 0), "qk_previous_token"] == pytest.approx(1 / 64, abs=1e-3)


def test_tables_have_a_row_for_every_head_and_every_pair(model, tmp_path):
    found = weights(model, out=tmp_path)
    assert len(found.table) == 8
    assert len(found.composition) == 3 * 4 * 4
    assert (found.table["kv_group"] == found.table["head"] // 2).all()
    first = found.table[found.table["layer"] == 0]
    assert first["k_composition"].isna().all()
    last = found.table[found.table["layer"] == 1].iloc[0]
    pairs = found.composition.query("kind == 'k' and layer == 1 and head == 0")
    best = pairs.loc[pairs["score"].idxmax()]
    assert (last["k_from_layer"], last["k_from_head"]) == (best["from_layer"], best["from_head"])
    assert last["k_composition"] == pytest.approx(best["score"] - found.baseline)


def test_the_same_weights_give_the_same_bytes(model, tmp_path):
    for name in ("one", "two"):
        weights(model, out=tmp_path / name)
    for table in ("weights.parquet", "composition.parquet"):
        one, two = ((tmp_path / name / table).read_bytes() for name in ("one", "two"))
        assert one == two


def test_permuting_heads_permutes_rows(tmp_path):
    torch.manual_seed(8)
    module = llama(tie_word_embeddings=False)
    before = weights(load_model(module), out=tmp_path / "a").table
    width = module.config.head_dim
    with torch.no_grad():
        for layer in module.model.layers:  # exchange the two KV groups, queries and all
            attention = layer.self_attn
            for name in ("q_proj", "k_proj", "v_proj"):
                rows = getattr(attention, name).weight
                rows.copy_(rows.roll(rows.shape[0] // 2, dims=0))
            out = attention.o_proj.weight
            out.copy_(out.roll(2 * width, dims=1))
    after = weights(load_model(module), out=tmp_path / "b").table
    order = [2, 3, 0, 1, 6, 7, 4, 5]
    columns = ["ov_copying", "ov_copying_rank", "qk_previous_token", "k_composition"]
    np.testing.assert_allclose(
        before[columns].to_numpy(float), after[columns].iloc[order].to_numpy(float), atol=1e-4
    )


def test_learned_positions_and_biases_run_through(gpt2, tmp_path):
    table = weights(gpt2, out=tmp_path).table
    assert table[["ov_copying", "ov_copying_rank", "qk_previous_token"]].notna().all().all()
    assert table["qk_previous_token"].between(0, 1).all()


def test_an_encoder_without_a_head_has_no_copying(tmp_path):
    torch.manual_seed(9)
    config = BertConfig(
        vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=64,
    )  # fmt: skip
    table = weights(load_model(BertModel(config).eval()), out=tmp_path).table
    assert table[["ov_copying", "ov_copying_rank"]].isna().all().all()
    assert table.query("layer == 1")["v_composition"].notna().all()
