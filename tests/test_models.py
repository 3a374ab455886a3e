"""Loading: by name or by object, one set of weights in two forms, and one line on a mistake."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import pytest
import torch
import transformers as hf
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_bridge.sources.native import boot as boot_native
from transformers.utils import logging as hub_logging

import rolecall.analyses
from rolecall.analyses.check import check
from rolecall.analyses.forward import run_logits, run_plain
from rolecall.analyses.manifest import check_folder, describe
from rolecall.analyses.models import load_model
from rolecall.analyses.tables import write_json
from rolecall.analyses.vocabulary import ordinary_ids
from tests import tiny_models

ROOT = Path(__file__).resolve().parents[1]
IDS = torch.arange(20, 40).unsqueeze(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved T-gpt2b: folder, weights and tokenizer."""
    return tiny_models.save("gpt2b", tmp_path_factory.mktemp("models") / "tiny-gpt2")


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_both_forms_share_every_parameter(tiny, family):
    model = tiny(family)
    plain = {parameter.data_ptr() for parameter in model.plain.parameters()}
    whole = model.bridge.original_model
    assert plain <= {parameter.data_ptr() for parameter in whole.parameters()}


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_shape_of_the_heads(tiny, family):
    model = tiny(family)
    layer = model.pattern_layers[0]
    assert model.W_O(layer).shape == (model.n_heads, model.d_head, model.d_model)
    for weight in (model.W_K(layer), model.W_V(layer)):
        assert weight.shape == (model.n_kv_heads, model.d_model, model.d_head)
    assert model.W_Q(layer).shape == (model.n_heads, model.d_model, model.d_head)


def test_what_was_given_stays_as_it_was():
    module = tiny_models.build("llama")
    module.set_attn_implementation("sdpa")
    names = [name for name, _ in module.named_modules()]
    before = module(IDS).logits
    model = load_model(module, tokenizer=tiny_models.byte_pairs())
    assert model.plain is module
    assert [name for name, _ in module.named_modules()] == names
    assert module.config._attn_implementation == "sdpa"
    assert torch.equal(module(IDS).logits, before)


def test_tied_weights_stay_tied(tiny):
    whole = tiny("gpt2").bridge.original_model
    assert whole.get_input_embeddings().weight is whole.get_output_embeddings().weight


def test_a_folder_is_the_same_model_as_the_object(folder, tiny):
    model = load_model(folder)
    assert model.name == "tiny-gpt2"
    assert model.facts["weights_hash"] == tiny("gpt2b").facts["weights_hash"]
    assert model.facts["tokenizer_hash"] == tiny("gpt2b").facts["tokenizer_hash"]
    assert model.facts["revision"] is None
    assert torch.equal(run_logits(model, IDS), run_logits(tiny("gpt2b"), IDS))


def test_other_weights_have_another_hash(tiny):
    other = load_model(tiny_models.build("gpt2b", seed=1))
    assert other.facts["weights_hash"] != tiny("gpt2b").facts["weights_hash"]


def test_the_facts_are_plain_json(tiny):
    facts = tiny("llama").facts
    assert json.loads(json.dumps(facts)) == facts
    assert facts["dtype"] == "float32"
    assert facts["attention"] == "eager"
    assert facts["processing"] == "none"
    assert facts["bos"] == {"policy": "auto", "id": 1}


def test_bos_stands_first_where_the_tokenizer_has_one(tiny):
    assert tiny("llama").aligner.bos == 1
    assert tiny("qwen3").aligner.bos is None
    module, tokenizer = tiny("llama").plain, tiny("llama").tokenizer
    assert load_model(module, tokenizer=tokenizer, bos=False).aligner.bos is None
    with pytest.raises(ValueError, match="has no BOS token"):
        load_model(module, tokenizer=tiny("qwen3").tokenizer, bos=True)


def test_an_encoder_has_cls_and_sep_and_sees_both_ways(tiny):
    model = tiny("bert")
    assert (model.aligner.bos, model.aligner.eos) == (2, 3)
    assert not model.causal
    assert model.has_lm_head
    assert model.post_norm


def test_a_body_without_head_gives_no_logits(tiny):
    model = tiny("bert_body")
    assert not model.has_lm_head
    with pytest.raises(ValueError, match="no language-model head"):
        run_logits(model, IDS)
    assert run_plain(model, IDS).shape == (1, 20, 32)


def test_a_classifier_is_read_as_a_body_without_language_model_head():
    config = hf.BertConfig(**tiny_models.BERT_SIZES, initializer_range=0.2)
    model = load_model(hf.BertForSequenceClassification(config).eval())
    assert not model.has_lm_head
    assert all(finding.ok for finding in check(model))


def test_ordinary_tokens_are_printable_text_and_nothing_else():
    tokenizer = tiny_models.word_pieces()
    ids = ordinary_ids(tokenizer, 512)
    assert set(ids).isdisjoint(range(7))
    texts = [tokenizer.decode([token_id]).strip() for token_id in ids]
    assert all(text and text.isprintable() for text in texts)
    assert max(ids) < len(tokenizer)


def test_ordinary_tokens_leave_out_half_characters_and_blanks():
    tokenizer = tiny_models.byte_pairs()
    ordinary = set(ordinary_ids(tokenizer, 512))
    blank, half = (tokenizer.convert_tokens_to_ids(token) for token in ("Ġ", "Ã"))
    letter = tokenizer.convert_tokens_to_ids("a")
    assert blank not in ordinary
    assert half not in ordinary
    assert letter in ordinary


def test_ids_alone_will_do():
    model = load_model(tiny_models.build("llama"))
    assert model.tokenizer is None
    assert model.aligner.bos is None
    assert model.facts["tokenizer_hash"] is None
    assert len(model.aligner.ordinary) == 512


def test_a_bridge_is_used_as_it_is(folder):
    bridge = TransformerBridge.boot_transformers(str(folder), device="cpu")
    calls = []
    bridge.blocks[0].attn.hook_pattern.add_hook(lambda tensor, hook: calls.append(1))
    model = load_model(bridge)
    assert model.bridge is bridge
    assert model.plain is None
    assert model.facts["processing"] == "as given"
    assert all(finding.ok for finding in check(model))
    assert calls


def test_a_bridge_in_compatibility_mode_says_so(folder):
    bridge = TransformerBridge.boot_transformers(str(folder), device="cpu")
    bridge.enable_compatibility_mode(disable_warnings=True)
    model = load_model(bridge)
    assert "compatibility" in model.facts["processing"]
    assert all(finding.ok for finding in check(model))


def test_a_native_bridge_is_a_model_too():
    bridge = boot_native(
        {
            "n_layers": 2,
            "n_heads": 4,
            "d_model": 32,
            "d_head": 8,
            "d_vocab": 50,
            "n_ctx": 32,
            "d_mlp": 64,
            "act_fn": "gelu",
            "normalization_type": "LN",
            "seed": 0,
        }
    )
    model = load_model(bridge)
    assert (model.n_layers, model.n_heads, model.d_vocab) == (2, 4, 50)
    assert all(finding.ok for finding in check(model))


@pytest.mark.parametrize("processing", ["fold_value_biases", "compatibility"])
def test_processing_keeps_log_probabilities_and_the_plain_weights(processing):
    module = tiny_models.build("gpt2b")
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = load_model(module, processing=processing)
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in before.items())
    assert model.plain is None
    assert model.facts["processing"] == processing
    plain = module(IDS).logits.log_softmax(dim=-1)
    assert torch.allclose(run_logits(model, IDS).log_softmax(dim=-1), plain, atol=1e-4)
    assert model.attention(0).b_V.abs().max() == 0


def test_unknown_processing_is_refused():
    with pytest.raises(ValueError, match="processing is one of none, fold"):
        load_model(tiny_models.build("llama"), processing="centred")


def test_loading_leaves_transformers_settings_alone(folder, capsys):
    logger = logging.getLogger("transformers")
    before = (logger.level, hub_logging.is_progress_bar_enabled())
    load_model(folder)
    assert (logger.level, hub_logging.is_progress_bar_enabled()) == before
    assert capsys.readouterr() == ("", "")


def test_importing_the_package_does_not_import_torch():
    code = "import sys, rolecall.analyses; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_is_the_function_even_where_its_file_was_imported_before():
    import_module("rolecall.analyses.check")
    assert rolecall.analyses.check is check


@pytest.mark.parametrize("name", ["no/such/folder", "/no/such/folder", "missing.gguf", "a b"])
def test_a_wrong_path_is_one_line(name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="name a folder in Hugging Face form") as error:
        load_model(name)
    one_line(error)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", "no weights"),
        ("tokenizer*", "no tokenizer"),
    ],
)
def test_an_incomplete_folder_is_one_line(folder, tmp_path, missing, said):
    broken = shutil.copytree(folder, tmp_path / "broken")
    for path in broken.glob(missing):
        path.unlink()
    with pytest.raises(ValueError, match=said) as error:
        load_model(broken)
    one_line(error)


@pytest.mark.parametrize(
    ("file", "part"),
    [("model.safetensors", "weights"), ("config.json", "config"), ("tokenizer.json", "tokenizer")],
)
def test_a_damaged_file_is_one_line(folder, tmp_path, file, part):
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / file).write_bytes(b"\x07 not what it was")
    with pytest.raises(ValueError, match=f"the {part} of broken cannot be read") as error:
        load_model(broken)
    one_line(error)


def test_weights_that_lack_a_tensor_are_not_filled_with_chance(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    broken = shutil.copytree(folder, tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    del tensors["transformer.h.1.attn.c_attn.weight"]
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="lack 1 tensors") as error:
        load_model(broken)
    one_line(error)


@pytest.mark.parametrize("name", ["weights.bin", "notes.txt"])
def test_a_file_of_another_format_is_one_line(tmp_path, name):
    (tmp_path / name).write_text("hello")
    with pytest.raises(ValueError, match="unknown format") as error:
        load_model(tmp_path / name)
    one_line(error)


def test_a_damaged_gguf_file_is_one_line(tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF but not really")
    with pytest.raises(ValueError, match="broken cannot be read") as error:
        load_model(tmp_path / "broken.gguf")
    one_line(error)


def test_an_encoder_decoder_is_turned_away(tmp_path):
    config = hf.T5Config(d_model=16, d_ff=16, d_kv=8, num_heads=2, num_layers=1, vocab_size=512)
    config.architectures = ["T5ForConditionalGeneration"]
    config.save_pretrained(tmp_path)
    tiny_models.byte_pairs().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ValueError, match="is an encoder-decoder"):
        load_model(tmp_path)


def test_a_network_without_attention_is_turned_away():
    config = hf.MambaConfig(vocab_size=512, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(ValueError, match="no softmax attention") as error:
        load_model(hf.MambaForCausalLM(config).eval())
    one_line(error)


def test_quantised_weights_are_turned_away():
    module = tiny_models.build("llama")
    module.config.quantization_config = {"quant_method": "gptq", "bits": 4}
    with pytest.raises(ValueError, match="are quantised"):
        load_model(module)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [({"dtype": "int4"}, "dtype is one of float32"), ({"device": "abacus"}, "cannot be used here")],
)
def test_a_wrong_dtype_or_device_is_one_line(folder, wanted, said):
    with pytest.raises(ValueError, match=said) as error:
        load_model(folder, **wanted)
    one_line(error)


def test_what_is_no_model_at_all():
    with pytest.raises(ValueError, match="not int"):
        load_model(3)


def test_a_revision_is_for_the_hub(folder):
    with pytest.raises(ValueError, match="for models on the hub"):
        load_model(folder, revision="main")


@pytest.fixture
def hub(folder, tmp_path, monkeypatch):
    """A hub cache that holds the tiny model as acme/tiny; the hub itself is out of reach."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    kept = tmp_path / "hub" / "models--acme--tiny"
    shutil.copytree(folder, kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return commit


def test_a_hub_id_is_found_in_the_cache_with_its_commit(hub):
    model = load_model("acme/tiny")
    assert model.name == "acme/tiny"
    assert model.facts["revision"] == hub
    assert load_model("acme/tiny", revision=hub).facts["revision"] == hub


def test_a_hub_id_that_is_not_there_is_one_line(hub):
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE=1 forbids asking the hub") as error:
        load_model("acme/none")
    one_line(error)


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    waits = []
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", waits.append)
    with pytest.raises(ValueError, match=r"the hub cannot be reached.* name a folder") as error:
        load_model("acme/none")
    one_line(error)
    assert waits
    assert capfd.readouterr() == ("", "")


def test_without_a_name_it_is_the_model_that_is_carried(monkeypatch, folder, tmp_path):
    monkeypatch.setattr("rolecall.data.embedded.files", lambda _package: tmp_path)
    with pytest.raises(ValueError, match=r"SHA256SUMS is missing; install rolecall again"):
        load_model()
    made = shutil.copytree(folder, tmp_path / "model")
    sums = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in made.iterdir()]
    (made / "SHA256SUMS").write_text("\n".join(sums))
    assert load_model().name == "embedded"
    for path in made.glob("*.json"):
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        was, now = (sha256(content).hexdigest()[:12] for content in (before, before + b" "))
        with pytest.raises(ValueError, match=f"{path.name} is damaged.*{now}.*says {was}") as error:
            load_model()
        one_line(error)
        path.write_bytes(before)


def test_a_run_of_another_model_is_refused_by_what_differs(tiny, tmp_path):
    write_json(tmp_path / "manifest.json", {"model": describe(tiny("llama"))})
    check_folder(tmp_path, tiny("llama"))
    other = load_model(
        tiny_models.build("llama", seed=1), tokenizer=tiny_models.tokenizer_for("llama"), bos=False
    )
    with pytest.raises(ValueError, match=r"weights hash \w+ there, \w+ now") as error:
        check_folder(tmp_path, other)
    assert "'policy': False" in str(error.value)
    assert "n heads" not in str(error.value)


def test_what_is_wrong_with_the_options_is_said_before_weights_are_read(folder, monkeypatch):
    monkeypatch.setattr("rolecall.analyses.models.open_source", pytest.fail)
    for wrong in ({"dtype": "int4"}, {"device": "abacus"}, {"processing": "fine"}):
        with pytest.raises(ValueError, match=str(*wrong.values())):
            load_model(folder, **wrong)


def test_a_run_without_a_folder_of_its_own_is_gone_with_python():
    code = (
        "from rolecall.analyses import load_model, scan\n"
        "from rolecall.analyses.weights import weights\n"
        "from tests import tiny_models\n"
        "model = load_model(tiny_models.build('llama'))\n"
        "for found in (scan(model, ['previous_token'], n=4), weights(model)):\n"
        "    assert (found.folder / 'manifest.json').is_file()\n"
        "    print(found.folder)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    folders = [Path(line) for line in done.stdout.splitlines()]
    assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)


@pytest.mark.real
@pytest.mark.slow
def test_a_gguf_file_is_the_model_rebuilt_from_it(smollm2_gguf, smollm2):
    one, other = load_model(smollm2_gguf), load_model(smollm2)
    assert one.facts["weights_hash"] == other.facts["weights_hash"]
    assert one.aligner.ordinary == other.aligner.ordinary
    assert one.aligner.bos == other.aligner.bos == 1
    assert one.plain is not None
    assert not hasattr(one.plain.config, "quantization_config")


@pytest.mark.real
def test_minilm_has_patterns_and_no_logits(minilm: Path):
    model = load_model(minilm)
    assert (model.n_layers, model.n_heads) == (6, 12)
    assert not model.has_lm_head
    assert all(finding.ok for finding in check(model))
