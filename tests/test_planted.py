"""Planted models are what they say: heads look where they were built to look, and nowhere else."""

from dataclasses import replace

import pytest
import torch

from rolecall.analyses.planted import CATALOGUE, HELPERS, Design, measures, plant
from rolecall.analyses.planted_designs import ARCHITECTURES, JOBS, draw_design
from rolecall.analyses.planted_space import ANCHOR, codes, lay_out
from rolecall.analyses.planted_weights import kernel
from rolecall.analyses.planted_words import features
from rolecall.probes.aligner import id_aligner
from rolecall.probes.induction import induction
from rolecall.probes.scores import layout, read_links

WORDS = ["<s>", *(f"w{i}" for i in range(300))]
SEATS = {
    (0, 0): "previous_token",
    (0, 1): "first_token",
    (0, 2): "current_token",
    (0, 3): "fixed_offset",
    (1, 0): "duplicate_token",
    (1, 1): "induction",
}
DECODERS = {
    "gpt2": Design("gpt2", SEATS, seed=1),
    "gpt2, biased, another seed": Design("gpt2", SEATS, biased=True, seed=2, d_identity=40),
    "llama, grouped": Design("llama", SEATS, n_groups=2, seed=3),
    "llama, biased": Design("llama", SEATS, n_groups=4, biased=True, seed=4),
}


def patterns(planted, token_ids):
    """[layer, batch, head, query, key]"""
    model = planted.model
    model.set_attn_implementation("eager")
    with torch.no_grad():
        run = model(torch.tensor(token_ids), output_attentions=True)
    return torch.stack(run.attentions)


def repeated(period, copies=2, n=3):
    """BOS and a block of distinct ids, so many times."""
    made = []
    for seed in range(n):
        block = torch.randperm(300, generator=torch.Generator().manual_seed(seed))[:period] + 1
        made.append([0, *block.repeat(copies).tolist()])
    return made


@pytest.fixture(scope="module", params=DECODERS)
def decoder(request):
    return plant(WORDS, 0, DECODERS[request.param])


@pytest.mark.parametrize("period", [4, 9, 17])
def test_heads_look_where_they_were_built_to_look_at_any_period(decoder, period):
    at = patterns(decoder, repeated(period))
    queries = torch.arange(period + 2, 2 * period)
    back = {
        (0, 0): 1,
        (0, 2): 0,
        (1, 0): period,
        (1, 1): period - 1,
    }
    for (layer, head), lag in back.items():
        looked = at[layer][:, head, queries, queries - lag]
        assert looked.min() > 0.98, (DECODERS, layer, head, looked.min())
    assert at[0][:, 1, :, 0].min() > 0.999


def test_without_a_target_a_head_rests_on_the_first_token(decoder):
    at = patterns(decoder, repeated(20, copies=1))
    assert at[1][:, :2, 2:, 0].min() > 0.98
    assert at[0][:, 3, 2:9, 0].min() > 0.98


def test_several_copies_share_the_attention_of_an_induction_head(decoder):
    at = patterns(decoder, repeated(6, copies=3))
    queries = torch.arange(14, 18)
    both = at[1][:, 1, queries, queries - 5] + at[1][:, 1, queries, queries - 11]
    assert both.min() > 0.98


def test_idle_heads_look_everywhere_alike(decoder):
    at = patterns(decoder, repeated(8))
    even = torch.ones(17, 17).tril() / torch.arange(1, 18)[:, None]
    torch.testing.assert_close(at[1][:, 2:], even.expand(3, 2, 17, 17), atol=1e-4, rtol=0)


def induction_score(decoder, seat, period):
    """Naive prefix matching on blocks of one length, repeated with nothing between."""
    at = patterns(decoder, repeated(period))
    queries = torch.arange(period + 1, 2 * period)
    return at[seat[0]][:, seat[1], queries, queries - period + 1].mean().item()


def test_a_fixed_period_takes_a_fixed_offset_for_induction_and_our_data_do_not(decoder):
    """Methods §3, row 21. The planted offset is 9, so blocks of 10 are its trap."""
    impostor, true = (0, 3), (1, 1)
    assert induction_score(decoder, impostor, 10) > 0.98
    assert induction_score(decoder, true, 10) > 0.98
    ours = {seat: probe_score(decoder, seat) for seat in (impostor, true)}
    assert ours[true] > 0.98
    assert ours[impostor] < 0.2


def probe_score(decoder, seat):
    """The induction probe's score: mean mass over links, then over examples."""
    aligner = id_aligner(len(WORDS), bos=0, max_length=64)
    scores = []
    for example in induction.dataset(aligner, n=44, seed=0).examples:
        at = patterns(decoder, [list(example.token_ids)])
        mass = read_links(at[seat[0]], layout([example], aligner)).mass
        scores.append(mass[:, seat[1]].mean())
    return torch.stack(scores).mean().item()


def test_biases_hold_constants_without_changing_a_pattern():
    plain = DECODERS["llama, grouped"]
    one, other = (plant(WORDS, 0, replace(plain, biased=b)) for b in (False, True))
    ids = repeated(7)
    torch.testing.assert_close(patterns(one, ids), patterns(other, ids), atol=1e-3, rtol=0)
    assert other.model.model.layers[0].self_attn.k_proj.bias.abs().max() > 1


def test_query_heads_of_a_group_share_key_and_value(decoder):
    config = decoder.model.config
    groups = getattr(config, "num_key_value_heads", config.num_attention_heads)
    assert groups == decoder.design.n_groups


@pytest.mark.parametrize("seed", [0, 1])
def test_encoder_heads_look_both_ways(seed):
    seats = {(0, 0): "previous_token", (0, 1): "next_token", (1, 0): "first_token"}
    planted = plant(WORDS, 0, Design("bert", seats, seed=seed, biased=seed == 1))
    at = patterns(planted, repeated(8))
    inner = torch.arange(2, 15)
    assert at[0][:, 0, inner, inner - 1].min() > 0.98
    assert at[0][:, 1, inner, inner + 1].min() > 0.98
    assert at[1][:, 0, :, 0].min() > 0.98


def test_a_design_fixes_every_weight_and_leaves_the_random_state_alone():
    design = replace(DECODERS["gpt2"], noise=0.1)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, same, other = (plant(WORDS, 0, d).model.state_dict()
                        for d in (design, design, replace(design, seed=9)))  # fmt: skip
    assert all(torch.equal(one[name], same[name]) for name in one)
    name = "transformer.h.0.attn.c_attn.weight"
    assert one[name].shape != other[name].shape or not torch.equal(one[name], other[name])
    assert torch.equal(torch.get_rng_state(), before)


def test_noise_moves_weights_by_its_share_of_their_size_and_nothing_else():
    clean, noisy = (
        plant(WORDS, 0, replace(DECODERS["llama, grouped"], noise=n)) for n in (0.0, 0.1)
    )
    name = "model.layers.0.self_attn.o_proj.weight"
    moved = noisy.model.state_dict()[name] - clean.model.state_dict()[name]
    # Each head's matrix is shaken by its own root mean square.
    per_head = clean.model.state_dict()[name].unflatten(1, (4, -1)).square().mean((0, 2)).sqrt()
    shaken = moved.unflatten(1, (4, -1)).square().mean((0, 2)).sqrt()
    torch.testing.assert_close(shaken, 0.1 * per_head, rtol=0.02, atol=0)
    for kept in ("model.embed_tokens.weight", "lm_head.weight"):
        assert torch.equal(clean.model.state_dict()[kept], noisy.model.state_dict()[kept])


def test_truth_names_roles_and_none_for_impostors(decoder):
    assert decoder.truth[1, 1] == "induction"
    assert decoder.truth[0, 3] is None
    assert decoder.truth[1, 3] is None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_drawn_designs_stand_helpers_below_those_they_help(architecture):
    for seed in range(20):
        design = draw_design(architecture, seed=seed)
        layer = {name: seat[0] for seat, name in design.seats.items()}
        assert all(layer[HELPERS[n]] < layer[n] for n in layer if n in HELPERS)
        assert max(layer.values()) < design.n_layers
        assert design == draw_design(architecture, seed=seed)


def test_every_job_is_in_the_catalogue_and_every_role_has_a_job():
    planted = {name for job in JOBS for name in job}
    assert planted <= set(CATALOGUE)


def test_an_unknown_head_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="no planted head 'inductoin'; there are previous_token"):
        plant(WORDS, 0, Design("gpt2", {(0, 0): "inductoin"}))


def test_heads_that_do_not_fit_one_group_are_named():
    seats = {(0, i): "duplicate_token" for i in range(4)}
    with pytest.raises(ValueError, match="duplicate_token needs 32 coordinates and"):
        plant(WORDS, 0, Design("llama", seats, n_groups=1))


def test_axes_are_disjoint_and_too_many_do_not_fit():
    space = lay_out({"a": 2, "b": 3}, 8, seed=0)
    assert not {*space.axes["a"]} & {*space.axes["b"]}
    assert torch.equal(space["b"].T @ space["b"], torch.eye(3))
    with pytest.raises(ValueError, match="9 axes do not fit a width of 8; use d_model=9"):
        lay_out({"a": 9}, 8, seed=0)
    with pytest.raises(ValueError, match="no axis 'c'"):
        space["c"]


def test_embeddings_have_one_norm_so_that_norms_do_nothing():
    for design in DECODERS.values():
        model = plant(WORDS, 0, design).model
        tokens = model.get_input_embeddings().weight
        norms = tokens.square().sum(-1)
        torch.testing.assert_close(norms, norms[:1].expand_as(norms))
        assert norms[0] > ANCHOR**2


def test_an_offset_head_peaks_once():
    for design in (*DECODERS.values(), Design("bert", {})):
        _, geometry = measures(design)
        assert kernel(geometry)[0] == pytest.approx(1)
        assert kernel(geometry)[1:].max() < 0.9


def test_identities_are_unit_and_far_apart():
    made = codes(200, 32, seed=0)
    alike = made @ made.T - torch.eye(200)
    assert made.norm(dim=-1).sub(1).abs().max() < 1e-5
    assert alike.max() < 0.85


def test_words_carry_what_the_lexicon_says_of_them():
    words = ["queen", "kings", "She", "that", "So", "so", "(", "zither", "the"]
    known = {name: values.flatten().tolist() for name, values in features(words).items()}
    assert known["feminine"] == [1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert known["plural"] == [0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert known["she"] == [0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert known["relative"][3] == known["determiner"][3] == 1
    assert known["opens"] == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert known["open0"][6] == 1
    assert known["rarity"][7] > known["rarity"][0] > known["rarity"][8] == 0
