"""CoNLL-U: heads stay where they are, and every relation is a role in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolecall.probes.text import FUTURE
from rolecall.probes.toy import toy_aligner
from rolecall.probes.treebank import sentences, treebank_probes


def row(number: object, form: str, head: object = "_", relation: str = "_", misc: str = "_") -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t{misc}"


CONTRACTION = [
    "# text = They don't see.",
    row(1, "They", 4, "nsubj"),
    row("2-3", "don't"),
    row(2, "do", 4, "aux"),
    row(3, "n't", 4, "advmod"),
    row(4, "see", 0, "root", "SpaceAfter=No"),
    row("4.1", "seen"),
    row(5, ".", 4, "punct"),
]
SENTENCE = [
    row(1, "the", 2, "det"),
    row(2, "king", 3, "nsubj"),
    row(3, "saw", 0, "root"),
    row(4, "the", 5, "det"),
    row(5, "bird", 3, "obj:own"),
]


def written(folder: Path, *blocks: list[str]) -> Path:
    file = folder / "bank.conllu"
    file.write_text("\n\n".join("\n".join(block) for block in blocks) + "\n\n", encoding="utf-8")
    return file


def test_c43_ranges_give_the_text_and_decimals_nothing(tmp_path):
    (sentence,) = sentences(written(tmp_path, CONTRACTION))
    assert sentence.text == "They don't see."
    assert len(sentence.spans) == 5
    assert [(arc.dependent, arc.head, arc.relation) for arc in sentence.arcs] == [
        (1, 4, "nsubj"),
        (2, 4, "aux"),
        (3, 4, "advmod"),
        (5, 4, "punct"),
    ]
    letters = [sentence.text[slice(*span)] for span in sentence.spans]
    assert letters == ["They", "don't", "don't", "see", "."]


def test_c43_root_has_no_arc_and_subtypes_are_one_relation(tmp_path):
    (sentence,) = sentences(written(tmp_path, SENTENCE))
    assert {arc.relation for arc in sentence.arcs} == {"det", "nsubj", "obj"}


def test_every_relation_is_a_role_in_both_directions(tmp_path):
    probes = treebank_probes(written(tmp_path, *[SENTENCE] * 3), fewest=3)
    assert [p.name for p in probes] == ["det", "det_of", "nsubj", "nsubj_of", "obj", "obj_of"]
    assert {p.score_kind for p in probes} == {"hit"}


def test_c44_a_decoder_sees_one_direction_and_the_other_is_counted(tmp_path):
    probes = {p.name: p for p in treebank_probes(written(tmp_path, SENTENCE), fewest=1)}
    decoder, encoder = toy_aligner(), toy_aligner(causal=False)

    seen = probes["nsubj_of"].dataset(decoder, n=9, seed=0)
    assert [(x.query, x.target) for x in seen.examples[0].links] == [((3,), (2,))]
    assert seen.dropped == {}

    hidden = probes["nsubj"].dataset(decoder, n=9, seed=0)
    assert hidden.examples == ()
    assert hidden.dropped == {FUTURE: 1}
    both = probes["nsubj"].dataset(encoder, n=9, seed=0)
    assert [(x.query, x.target) for x in both.examples[0].links] == [((2,), (3,))]


def test_a_head_with_two_dependents_looks_at_both(tmp_path):
    block = [row(1, "the", 3, "det"), row(2, "old", 3, "det"), row(3, "king", 0, "root")]
    probes = {p.name: p for p in treebank_probes(written(tmp_path, block), fewest=1)}
    (example,) = probes["det_of"].dataset(toy_aligner(), n=1, seed=0).examples
    assert example.links[0].target == (1, 2)


def test_rivals_are_the_targets_neighbours(tmp_path):
    probes = {p.name: p for p in treebank_probes(written(tmp_path, SENTENCE), fewest=1)}
    (example,) = probes["obj"].dataset(toy_aligner(), n=1, seed=0).examples
    assert (example.links[0].target, example.links[0].rivals) == ((3,), ((2,), (4,)))


def test_c41_one_word_sentences_are_no_examples(tmp_path):
    block = [row(1, "Yes", 0, "root")]
    found = treebank_probes(written(tmp_path, block, SENTENCE), fewest=1)
    assert all(len(p.dataset(toy_aligner(), n=9, seed=0).examples) <= 1 for p in found)


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ([row(1, "a", 9, "det"), row(2, "b", 0, "root")], "word 1 has head 9 of 2 words"),
        ([row(1, "a", 2, "det"), row(3, "b", 0, "root")], "word 3 stands where word 2 should be"),
        ([row(1, "a", 0, "root")], "no dependency in it"),
        (["1\tfoo"], r"word 1 \(foo\) has 2 columns"),
        (["1\tfoo\tfoo\tNOUN\t_\t_\t0\troot"], r"word 1 \(foo\) has 8 columns"),
        (["not a table at all"], "cannot be read as CoNLL-U"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, block, says):
    with pytest.raises(ValueError, match=rf"bank\.conllu.*{says}"):
        sentences(written(tmp_path, block))


def test_too_few_arcs_are_told(tmp_path):
    with pytest.raises(ValueError, match="no relation has 20 arcs"):
        treebank_probes(written(tmp_path, SENTENCE))
