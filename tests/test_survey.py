"""Everything in a row on small models: what is chosen, what is skipped, what is said."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from rolecall.analyses import generalise as generalise_file
from rolecall.analyses import survey as survey_file
from rolecall.analyses.generalise import Blind, generalise
from rolecall.analyses.models import load_model
from rolecall.analyses.planted_designs import word_tokenizer
from rolecall.analyses.random_models import random_model
from rolecall.analyses.survey import ORDINARY, QUICK, Pace, chosen_heads, survey
from rolecall.data.lexicon import entries
from rolecall.reports.cli import main
from rolecall.reports.survey_command import table_of_generalisation
from tests.test_tiers import GOOD

SHARED = Path(__file__).parents[2] / "shared" / "data"
TINY = Pace(4, 4, ("mean",), 2, None, 0, 30)


@pytest.fixture(scope="module")
def model():
    tokenizer = word_tokenizer(causal=True)
    return load_model(random_model("llama", len(tokenizer), seed=1), tokenizer=tokenizer)


def digests(folder):
    names = ("scores.parquet", "weights.parquet", "effects.parquet", "verdicts.parquet")
    paths = [*(folder / name for name in names), folder / "heads.csv"]
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def many_heads(n_heads=100):
    leaders = {3: 0.6, 7: 0.5, 11: 0.4}
    rows = []
    for role in ("induction", "subject_verb"):
        for head in range(n_heads):
            margin = leaders.get(head, -0.1) if role == "induction" else -0.1
            rows.append(
                {**GOOD, "role": role, "layer": head // 10, "head": head % 10, "margin": margin,
                 "margin_low": margin - 0.05}
            )  # fmt: skip
    return pd.DataFrame(rows)


def test_of_a_large_model_the_leaders_and_some_others_are_ablated():
    pace = replace(QUICK, leaders=2, controls=5)
    heads = chosen_heads(many_heads(), pace, seed=0)
    assert {(0, 3), (0, 7)} <= set(heads)
    assert (1, 1) not in heads or len(heads) == 7  # head 11 leads third, and can only be drawn
    assert len(heads) == 7
    assert heads == tuple(sorted(heads)) == chosen_heads(many_heads(), pace, seed=0)
    assert heads != chosen_heads(many_heads(), pace, seed=1)


def test_of_a_small_model_all_heads_are_ablated():
    assert chosen_heads(many_heads(60), QUICK, seed=0) == ()
    assert chosen_heads(many_heads(), replace(ORDINARY, leaders=None), seed=0) == ()


@pytest.mark.slow
def test_a_survey_writes_every_table_and_runs_nothing_twice(model, tmp_path, monkeypatch):
    found = survey(model, out=tmp_path, pace=TINY)
    assert len(found.verdicts.heads) == model.n_layers * model.n_heads
    before = digests(tmp_path)

    def never(*_, **__):
        raise AssertionError("this was done already")

    monkeypatch.setattr(survey_file, "weights", never)
    # The package gives functions of these names, so the files are taken from where they lie.
    monkeypatch.setattr(sys.modules["rolecall.analyses.scan"], "read_batch", never)
    monkeypatch.setattr(sys.modules["rolecall.analyses.ablate"], "sweep", never)
    survey(model, out=tmp_path, pace=TINY)
    assert digests(tmp_path) == before


@pytest.mark.slow
def test_an_encoder_without_a_head_gets_patterns_only(tmp_path):
    tokenizer = word_tokenizer(causal=False)
    module = random_model("bert", len(tokenizer), seed=0)
    encoder = load_model(getattr(module, "bert", module), tokenizer=tokenizer)
    found = survey(encoder, out=tmp_path, pace=TINY)
    assert any("no language-model head: no effects" in note for note in found.notes)
    assert any("no effects.parquet" in note for note in found.verdicts.notes)


def test_a_treebank_that_is_not_there_costs_nothing(model, tmp_path):
    with pytest.raises(ValueError, match="there is no treebank at"):
        survey(model, out=tmp_path, pace=TINY, treebank=tmp_path / "none.conllu")
    assert not list(tmp_path.iterdir())


def treebank(path, n=40):
    """Sentences `the noun sees the noun`, with an adverb before the verb in every second."""
    words = [noun.singular for noun in entries("nouns")]
    blocks = []
    for i in range(n):
        subject, object_ = words[i % len(words)], words[(i + 7) % len(words)]
        rows = [("the", 2, "det"), (subject, 3, "nsubj"), ("sees", 0, "root"), ("the", 5, "det"),
                (object_, 3, "obj")]  # fmt: skip
        if i % 2:
            rows = [("the", 2, "det"), (subject, 4, "nsubj"), ("often", 4, "advmod"),
                    ("sees", 0, "root"), ("the", 6, "det"), (object_, 4, "obj")]  # fmt: skip
        lines = [
            f"{k}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_"
            for k, (word, head, relation) in enumerate(rows, start=1)
        ]
        blocks.append("\n".join(lines))
    path.write_text("\n\n".join(blocks) + "\n\n", encoding="utf-8")
    return path


def test_labels_are_tried_on_a_treebank_they_never_saw(model, tmp_path, monkeypatch):
    file = treebank(tmp_path / "small.conllu")
    verdicts = pd.DataFrame(
        {
            "role": ["subject_verb", "subject_verb", "verb_object", "induction"],
            "layer": [0, 1, 0, 0], "head": [0, 1, 2, 0], "tier": ["C", "D", "A", "A"],
        }
    )  # fmt: skip
    table = generalise(model, verdicts, file, out=tmp_path, blind=Blind(n=40))
    assert table[["role", "relation"]].values.tolist() == [
        ["subject_verb", "nsubj_of"],
        ["verb_object", "obj"],
    ]
    assert table["accuracy"].between(0, 1).all()
    assert table["n_links"].max() <= 40
    assert (table["margin"] - (table["accuracy"] - table["baseline"])).abs().max() < 1e-9
    assert not table["holds"].any()  # weights are random
    written = pd.read_csv(tmp_path / "generalisation.csv")
    assert list(written.columns) == list(table.columns)
    monkeypatch.setattr(generalise_file, "read_batch", None)  # what is there is not run again
    again = generalise(model, verdicts, file, out=tmp_path, blind=Blind(n=40))
    pd.testing.assert_frame_equal(table, again)
    assert table_of_generalisation(table).row_count == 2
    nothing = generalise(model, verdicts.iloc[3:], file, out=tmp_path)
    assert "no head has a syntactic label" in str(table_of_generalisation(nothing)).lower()


def test_no_treebank_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["survey", "--out", str(tmp_path / "run"), "--conllu", str(tmp_path / "none")])
    assert stop.value.code == 2
    assert "there is no treebank at" in capsys.readouterr().err


@pytest.mark.real
def test_on_natural_text_a_trained_model_is_held_against_the_modal_offset(tmp_path):
    model = load_model(str(SHARED / "stories260K"))
    verdicts = pd.DataFrame(
        {"role": ["determiner"] * 3, "layer": [0, 2, 4], "head": [0, 3, 7], "tier": ["C"] * 3}
    )
    file = SHARED / "ud_ewt" / "en_ewt-ud-dev.conllu"
    table = generalise(model, verdicts, file, out=tmp_path, blind=Blind(n=60))
    # Determiners stand right before their noun in about six of ten cases.
    assert (table["modal_offset"] == -1).all()
    assert table["offset_accuracy"].between(0.5, 0.8).all()
    assert table["accuracy"].between(0, 1).all()
    assert table["n_links"].min() > 60


def test_a_treebank_that_cannot_be_read_costs_nothing(model, tmp_path):
    file = tmp_path / "bad.conllu"
    file.write_text("1\tone\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.conllu"):
        survey(model, out=tmp_path / "run", pace=TINY, treebank=file)
    assert not (tmp_path / "run").exists()
