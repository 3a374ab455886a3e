"""The embedded model does what its card says, on words and templates it never saw."""

import csv
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from rolecall.analyses.vocabulary import build_aligner
from rolecall.data.batches import Plan, batches
from rolecall.data.embedded import embedded_path
from rolecall.data.heldout import (
    LISTS,
    TASKS,
    best_heads,
    copies,
    copy_accuracy,
    item_accuracy,
    items,
)
from rolecall.data.lexicon import entries, forms
from rolecall.data.repeats import pools
from rolecall.data.train import new_model
from rolecall.probes.base import Item
from rolecall.probes.registry import find

LIMIT = 8 * 2**20
# The role whose task each of the four abilities is, and the share of items it gets right at least.
ABILITIES = {"subject_verb": 0.95, "coreference": 0.95, "bracket": 0.95, "induction": 0.95}
ABILITIES |= {"delimiter": 0.9}


@cache
def loaded():
    """The model and its tokenizer."""
    path = embedded_path()
    return AutoModelForCausalLM.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)


def test_the_weights_are_small_and_the_folder_loads():
    model, tokenizer = loaded()
    config = model.config
    assert (embedded_path() / "model.safetensors").stat().st_size <= LIMIT
    assert config.num_attention_heads // config.num_key_value_heads == 2
    assert config.vocab_size == len(tokenizer)
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_the_tokenizer_puts_one_bos_and_keeps_text():
    _, tokenizer = loaded()
    text = 'The king said "the dogs (all of them) are old".\nMary left.'
    ids = tokenizer.encode(text)
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(tokenizer.bos_token_id) == 1
    assert tokenizer.decode(ids[1:]).lstrip(" ") == text


def test_stems_are_one_token_and_rare_words_several():
    _, tokenizer = loaded()
    rare = {entry.word for entry in entries("rare")}
    pieces = {form: tokenizer.tokenize(f" {form}") for form, _ in forms()}
    assert all(len(pieces[form]) > 1 for form in rare)
    others = [form for form in pieces if form not in rare]
    assert [form for form in others if pieces[form][1:] not in ([], ["s"])] == []


def right(model: LlamaForCausalLM, item: Item) -> float:
    """Whether the answer has the higher logit, or the share of marked tokens predicted."""
    with torch.no_grad():
        logits = model(torch.tensor([item.token_ids])).logits[0]
    if item.position is not None:
        return float(logits[item.position, item.answer] > logits[item.position, item.foil])
    marked = torch.tensor(item.positions)
    wanted = torch.tensor(item.token_ids)[marked]
    return logits[marked - 1].argmax(-1).eq(wanted).float().mean().item()


@pytest.mark.parametrize("role", ABILITIES)
def test_the_model_does_the_task_of_the_role(role: str):
    model, tokenizer = loaded()
    (probe,) = find([role])
    aligner = build_aligner(
        tokenizer, d_vocab=len(tokenizer), causal=True, max_length=256, bos="auto"
    )
    assert probe.tasks
    for make in probe.tasks:
        asked = make(aligner, n=96, seed=7).items
        assert len(asked) >= 90
        assert sum(right(model, item) for item in asked) / len(asked) >= ABILITIES[role]


def accuracy(task: str, file: str) -> float:
    """Mean over the templates of a held-out list, 40 items each."""
    model, tokenizer = loaded()
    scores = item_accuracy(model, tokenizer, items(task, seed=7, each=40, file=file))
    return sum(scores.values()) / len(scores)


@pytest.mark.parametrize("task", TASKS)
def test_the_model_does_heldout_templates(task: str):
    assert accuracy(task, "heldout") >= 0.95


@pytest.mark.parametrize("file", LISTS)
def test_the_card_says_how_it_does_on_each_list(file: str):
    card = (embedded_path() / "README.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\| (\w+) \| mean of \d+ \| ([\d.]+) \|$", card, flags=re.MULTILINE)
    of_list = dict(stated[len(TASKS) * LISTS.index(file) :][: len(TASKS)])
    for task in TASKS:  # on another machine an item may tip over
        assert float(of_list[task]) == pytest.approx(accuracy(task, file), abs=0.01)


def test_the_model_repeats_random_tokens():
    model, tokenizer = loaded()
    accuracy, loss = copy_accuracy(model, copies(len(tokenizer), seed=7, count=40))
    assert accuracy >= 0.95
    assert loss < 0.5


def test_there_are_induction_and_previous_token_heads():
    model, tokenizer = loaded()
    found = best_heads(model, copies(len(tokenizer), seed=7, count=10))
    assert found["previous"] > 0.5
    assert found["induction"] > 0.4


def test_the_card_says_what_the_log_says():
    folder = embedded_path()
    last = list(csv.DictReader((folder / "log.csv").read_text(encoding="utf-8").splitlines()))[-1]
    card = (folder / "README.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| `(\w+)` \| ([\d.e-]+) \|$", card, flags=re.MULTILINE))
    assert stated == last


def test_a_missing_or_damaged_file_is_named(tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(embedded_path(), folder)
    assert embedded_path(folder) == folder
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged.*rolecall\.data\.train"):
        embedded_path(folder)
    weights.unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors is missing.*rolecall\.data\.train"):
        embedded_path(folder)
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match=r"SHA256SUMS is missing"):
        embedded_path(folder)


def test_a_seed_fixes_the_first_step():
    _, tokenizer = loaded()
    first, again = (next(batches(Plan(), tokenizer)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    one, two = (new_model(50, seed=3).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_repeats_draw_no_words_of_other_groups():
    _, tokenizer = loaded()
    groups = dict(forms())
    every, own = pools(tokenizer, 3)
    assert len(own) > 60
    assert {groups[tokenizer.decode([i]).strip()] for i in own} == {3}
    assert {groups.get(tokenizer.decode([i]).strip(), 3) for i in every} == {3}
