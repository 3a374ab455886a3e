"""The scan: the same numbers however they are come by, and nothing broken by what goes wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from rolecall.analyses import load_model, scan
from rolecall.analyses.export import crafted_examples, example_lines
from rolecall.probes.base import Crafted
from rolecall.probes.registry import PluginWarning
from rolecall.probes.toy import toy_aligner
from tests import recompute

ROLES = ["previous_token", "subject_verb", "induction", "coreference"]


@pytest.fixture(scope="module")
def tiny():
    """A random grouped-query decoder that reads the toy vocabulary."""
    aligner = toy_aligner()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=aligner.d_vocab,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=1,
    )
    module = LlamaForCausalLM(config).eval()
    return load_model(module, tokenizer=aligner.tokenizer)


@pytest.fixture(scope="module")
def scanned(tiny, tmp_path_factory):
    return scan(tiny, ROLES, n=24, out=tmp_path_factory.mktemp("run"))


def test_every_head_has_a_row_for_every_role(scanned, tiny):
    rows = scanned.scores
    assert set(rows["role"]) == set(ROLES)
    assert len(rows) == len(ROLES) * tiny.n_layers * tiny.n_heads
    assert (rows["kv_group"] == rows["head"] // 2).all()


def test_the_same_run_twice_gives_the_same_bytes(scanned, tiny, tmp_path):
    scan(tiny, ROLES, n=24, out=tmp_path)
    names = ["scores.parquet", *(f"evidence/{role}.parquet" for role in ROLES)]
    for name in names:
        assert (tmp_path / name).read_bytes() == (scanned.folder / name).read_bytes(), name


@pytest.mark.parametrize("tokens", [1, 97, 100_000])
def test_c49_batch_size_changes_no_score(scanned, tiny, tmp_path, monkeypatch, tokens):
    import importlib

    module = importlib.import_module("rolecall.analyses.scan")
    monkeypatch.setattr(module, "tokens_a_batch", lambda model: tokens)
    rows = scan(tiny, ROLES, n=24, out=tmp_path).scores
    for column in ("score", "margin", "specificity", "sink", "ci_low"):
        np.testing.assert_allclose(rows[column], scanned.scores[column], atol=1e-5, err_msg=column)


@pytest.mark.parametrize("role", ROLES)
def test_scores_can_be_recomputed_from_exported_examples(scanned, tiny, role):
    lines = example_lines(crafted_examples(tiny, role, n=24, seed=0))
    rows = scanned.scores[scanned.scores["role"] == role]
    tiny.plain.set_attn_implementation("eager")
    ours = rows["score"].to_numpy().reshape(tiny.n_layers, tiny.n_heads)
    theirs = recompute.scores(tiny.plain, lines, kind=rows["score_kind"].iloc[0], causal=True)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_what_is_done_is_not_run_again(scanned, tiny):
    path = scanned.folder / "evidence" / "induction.parquet"
    before = path.stat().st_mtime_ns
    again = scan(tiny, ["induction"], n=24, out=scanned.folder)
    assert path.stat().st_mtime_ns == before
    scan(tiny, ["induction"], n=23, out=scanned.folder)
    assert path.stat().st_mtime_ns != before
    assert set(again.manifest["roles"]) == set(ROLES), "what earlier steps said is kept"


def test_a_folder_of_another_model_is_refused(scanned, tiny):
    other = dataclasses.replace(tiny, facts={**tiny.facts, "weights_hash": "other"})
    with pytest.raises(ValueError, match="choose another --out"):
        scan(other, ["induction"], n=4, out=scanned.folder)


def test_a_plugin_whose_data_fails_costs_its_own_role(tiny, tmp_path, monkeypatch):
    import importlib

    from rolecall.probes.base import probe
    from rolecall.probes.registry import find

    @probe(family="f", source="s", score="mass", no_task="none")
    def failing(aligner, *, n: int, seed: int) -> Crafted:
        """Fails."""
        raise KeyError("boom")

    module = importlib.import_module("rolecall.analyses.scan")
    monkeypatch.setattr(module, "find", lambda roles: (failing, *find(["induction"])))
    with pytest.warns(PluginWarning, match="role 'failing' is left out: KeyError"):
        rows = scan(tiny, n=6, out=tmp_path).scores
    assert set(rows["role"]) == {"induction"}


def test_a_role_for_encoders_is_not_scored_on_a_decoder(tiny, tmp_path):
    result = scan(tiny, ["next_token", "induction"], n=6, out=tmp_path)
    assert set(result.scores["role"]) == {"induction"}
    assert "a decoder cannot see" in str(result.manifest["roles"]["next_token"]["dropped"])


def test_the_manifest_says_what_was_run(scanned):
    said = scanned.manifest
    assert said["model"]["bos"] == {"policy": "auto", "id": 0}
    assert said["settings"] == {"n": 24, "seed": 0}
    assert {"torch", "transformer-lens", "python"} <= set(said["versions"])
    for role in ROLES:
        assert said["roles"][role]["used"] > 0
        assert len(said["roles"][role]["dataset_hash"]) == 16


def test_a_result_draws_itself_in_a_notebook(scanned):
    html = scanned._repr_html_()
    assert all(role in html for role in ROLES)
    assert html.count("<table") == len(ROLES)


@pytest.mark.real
@pytest.mark.parametrize("role", ["previous_token", "subject_verb", "coreference"])
@pytest.mark.parametrize("which", ["smollm2", "minilm"])
def test_real_scores_can_be_recomputed(request, which, role, tmp_path):
    from transformers import AutoModel

    folder = request.getfixturevalue(which)
    model = load_model(str(folder))
    opened = AutoModelForCausalLM if model.causal else AutoModel
    plain = opened.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    rows = scan(model, [role], n=16, out=tmp_path).scores
    lines = example_lines(crafted_examples(model, role, n=16, seed=0))
    kind = rows["score_kind"].iloc[0]
    theirs = recompute.scores(plain.eval(), lines, kind=kind, causal=model.causal)
    ours = rows["score"].to_numpy().reshape(model.n_layers, model.n_heads)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.real
def test_smollm2_has_its_known_heads(smollm2, tmp_path):
    result = scan(load_model(str(smollm2)), ["previous_token", "induction"], n=32, out=tmp_path)
    best = result.top(1).set_index("role")[["layer", "head"]]
    assert tuple(best.loc["previous_token"]) == (16, 0)
    assert tuple(best.loc["induction"]) == (18, 6)


@pytest.mark.real
def test_c32_stories260k_has_previous_token_heads_and_no_induction_head(stories, tmp_path):
    result = scan(load_model(str(stories)), ["previous_token", "induction"], n=48, out=tmp_path)
    two = result.top(2)
    previous = two[two["role"] == "previous_token"]
    assert set(zip(previous["layer"], previous["head"], strict=True)) == {(3, 6), (1, 3)}
    assert result.scores.query("role == 'induction'")["score"].max() < 0.05
