"""Text with links to token examples: what is kept, and why the rest is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rolecall.probes import text as reasons
from rolecall.probes.aligner import id_aligner
from rolecall.probes.text import TextExample, TextLink, aligned
from rolecall.probes.toy import toy_aligner

# "the old king saw the bird": king 8-12, saw 13-16, bird 21-25
TEXT = "the old king saw the bird"
KING, SAW, BIRD = (8, 12), (13, 16), (21, 25)


def example(*links: TextLink, text: str = TEXT, twin: TextExample | None = None) -> TextExample:
    return TextExample(text, "t", links, twin)


def test_a_link_in_characters_becomes_one_in_positions():
    made = aligned(toy_aligner(), [example(TextLink(SAW, (KING,), (((4, 7),),)))])
    (link,) = made.examples[0].links
    assert (link.query, link.target, link.rivals) == ((4,), (3,), ((2,),))
    assert made.examples[0].words == ((1,), (2,), (3,), (4,), (5,), (6,))
    assert made.dropped == {}


def test_a_word_in_pieces_is_looked_at_whole_and_from_its_last_piece():
    text = "the pilots carried the kings"
    made = aligned(toy_aligner(pieces=True), [example(TextLink((11, 18), ((4, 10),)), text=text)])
    (link,) = made.examples[0].links
    assert link.target == (2, 3)
    assert link.query == (5,)
    encoder = toy_aligner(causal=False, pieces=True)
    assert aligned(encoder, [example(TextLink((11, 18), ((4, 10),)), text=text)]).examples[0].links[
        0
    ].query == (4, 5)


def test_several_target_spans_are_one_target():
    made = aligned(toy_aligner(), [example(TextLink(BIRD, (KING, SAW)))])
    assert made.examples[0].links[0].target == (3, 4)


def test_c44_a_key_to_the_right_is_not_scoreable_in_a_decoder_and_is_counted():
    link = TextLink(KING, (BIRD,))
    made = aligned(toy_aligner(), [example(link, TextLink(SAW, (KING,)))])
    assert [one.query for one in made.examples[0].links] == [(4,)]
    assert made.dropped == {reasons.FUTURE: 1}
    encoder = aligned(toy_aligner(causal=False), [example(link)])
    assert encoder.examples[0].links[0].target == (6,)


def test_a_rival_to_the_right_is_left_out_in_a_decoder():
    link = TextLink(SAW, (KING,), ((BIRD,), ((4, 7),)))
    assert aligned(toy_aligner(), [example(link)]).examples[0].links[0].rivals == ((2,),)
    encoder = aligned(toy_aligner(causal=False), [example(link)])
    assert encoder.examples[0].links[0].rivals == ((6,), (2,))


def test_an_example_without_links_is_dropped_with_both_reasons():
    made = aligned(toy_aligner(), [example(TextLink(KING, (BIRD,)))])
    assert made.examples == ()
    assert made.dropped == {reasons.FUTURE: 1, reasons.LONE: 1}


@pytest.mark.parametrize(
    ("text", "link", "reason"),
    [
        ("the xyzzy king", TextLink((10, 14), ((0, 3),)), reasons.UNKNOWN),
        (TEXT, TextLink(SAW, ((7, 8),)), reasons.NOT_ALIGNED),
        (TEXT, TextLink(SAW, (SAW,)), reasons.SHARED),
        ("the king " * 200, TextLink((4, 8), ((0, 3),)), reasons.TOO_LONG),
    ],
)
def test_c41_what_cannot_be_used_is_counted(text, link, reason):
    made = aligned(toy_aligner(), [example(link, text=text)])
    assert made.examples == ()
    assert made.dropped[reason] == 1


def test_a_twin_of_the_same_length_is_kept():
    twin = example(TextLink(SAW, ((4, 7),)))
    made = aligned(toy_aligner(), [example(TextLink(SAW, (KING,)), twin=twin)])
    assert made.examples[0].twin is not None
    assert made.examples[0].twin.links[0].target == (2,)


@pytest.mark.parametrize(
    "twin",
    [
        example(TextLink((9, 12), ((4, 8),)), text="the king saw"),
        example(TextLink(KING, (BIRD,))),
        example(TextLink((4, 8), ((0, 3),)), text="the king xyzzy the old bird"),
    ],
    ids=["shorter", "without the link", "unknown word"],
)
def test_a_twin_that_does_not_match_leaves_its_example_alone(twin):
    made = aligned(toy_aligner(), [example(TextLink(SAW, (KING,)), twin=twin)])
    assert len(made.examples) == 1
    assert made.examples[0].twin is None
    assert made.dropped == {reasons.TWIN: 1}


def test_without_a_tokenizer_all_are_counted():
    made = aligned(id_aligner(9), [example(TextLink(SAW, (KING,)))] * 3)
    assert (made.examples, made.dropped) == ((), {reasons.NO_TEXT: 3})


def test_one_example_that_fails_does_not_shift_the_others():
    good = example(TextLink(SAW, (KING,)))
    bad = replace(good, text="the xyzzy", twin=good)
    made = aligned(toy_aligner(), [bad, replace(good, twin=good), good])
    assert [e.twin is not None for e in made.examples] == [True, False]
    assert len({e.token_ids for e in made.examples}) == 1
