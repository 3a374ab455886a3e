"""People's own links: read right, or refused with file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rolecall.probes.own_links import link_probe
from rolecall.probes.toy import toy_aligner

LINK = {
    "text": "the old king saw the bird",
    "query": [13, 16],
    "key": [[8, 12]],
    "rivals": [[4, 7]],
    "template": "a",
}


def written(folder: Path, *rows: object, start: str = "") -> Path:
    file = folder / "own.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    file.write_text(start + "\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_a_line_becomes_a_link(tmp_path):
    probe = link_probe(written(tmp_path, LINK))
    assert probe.name == "own"
    (example,) = probe.dataset(toy_aligner(), n=10, seed=0).examples
    (link,) = example.links
    assert (link.query, link.target, link.rivals) == ((4,), (3,), ((2,),))
    assert example.template == "a"


def test_lines_with_the_same_text_are_one_example(tmp_path):
    other = {**LINK, "query": [21, 25], "key": [[13, 16]]}
    probe = link_probe(written(tmp_path, LINK, other, {**LINK, "template": "b"}))
    examples = probe.dataset(toy_aligner(), n=10, seed=0).examples
    assert [len(example.links) for example in examples] == [2, 1]


def test_a_file_larger_than_wanted_is_drawn_from_by_seed(tmp_path):
    rows = [{**LINK, "template": f"t{i}"} for i in range(30)]
    dataset = link_probe(written(tmp_path, *rows)).dataset
    first = dataset(toy_aligner(), n=5, seed=1)
    assert len(first.examples) == 5
    assert first == dataset(toy_aligner(), n=5, seed=1)
    assert first != dataset(toy_aligner(), n=5, seed=2)


def test_c36_several_keys_are_taken_together(tmp_path):
    row = {**LINK, "key": [[0, 3], [8, 12]]}
    (example,) = link_probe(written(tmp_path, row)).dataset(toy_aligner(), n=1, seed=0).examples
    assert example.links[0].target == (1, 3)


def test_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path):
    file = written(tmp_path, LINK, "", LINK, start="\ufeff")
    assert link_probe(file).dataset(toy_aligner(), n=9, seed=0).examples


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{text: 1}", "not JSON"),
        ("[1]", "object in braces is wanted, not list"),
        ({**LINK, "text": ""}, "'text' should be text"),
        ({"text": "a", "query": [0, 1]}, "key missing"),
        ({**LINK, "query": [13, 99]}, "not within the text of 25 characters"),
        ({**LINK, "query": [5, 5]}, "not within the text"),
        ({**LINK, "query": "king"}, "should be \\[start, end\\] in characters"),
        ({**LINK, "query": [True, 2]}, "should be \\[start, end\\] in characters"),
        ({**LINK, "key": []}, "'key' is empty"),
        ({**LINK, "key": [8, 12]}, "should be \\[start, end\\]"),
        ({**LINK, "rival": []}, "unknown field 'rival'"),
    ],
)
def test_a_bad_line_is_named_with_its_file(tmp_path, bad, says):
    file = written(tmp_path, LINK, bad)
    with pytest.raises(ValueError, match=rf"own\.jsonl, line 2: .*{says}"):
        link_probe(file)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_c41_an_empty_file_is_an_error(tmp_path, text):
    file = tmp_path / "none.jsonl"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"none\.jsonl is empty"):
        link_probe(file)


def test_a_file_that_is_not_there_or_not_text_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        link_probe(tmp_path / "missing.jsonl")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="cannot be read"):
        link_probe(tmp_path / "binary.jsonl")
