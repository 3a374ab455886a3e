"""The lexicon's groups, the grammar, and the promise that probes and training share nothing."""

import re
from collections import Counter
from functools import cache
from itertools import repeat
from random import Random

import pytest

from rolecall.data.grammar import document, fill, frames, parse
from rolecall.data.heldout import TASKS, copies, items
from rolecall.data.lexicon import FILES, GROUPS, entries, forms, group_of, words
from rolecall.data.repeats import repeat_tokens
from rolecall.data.slots import (
    AGREEING,
    OPENERS,
    PLURAL,
    PREPOSITIONS,
    PRONOUNS,
    SINGULAR,
    Slot,
)
from rolecall.data.templates import Template, files_of_templates, templates

WORD = re.compile(r"[A-Za-z_]+")
MARKS = re.compile(r"[A-Za-z_]+|[^\sA-Za-z_]")


def groups_in(text: str) -> set[int]:
    """The groups of a text's content words."""
    found = {
        group_of(w) if group_of(w) is not None else group_of(w.lower()) for w in WORD.findall(text)
    }
    return {group for group in found if group is not None}


@cache
def plain(word: str) -> str:
    """A word reduced to its kind: content words, forms of a pronoun and variants are one each."""
    low = word.lower()
    if word == "_" or groups_in(word):
        return "_"
    if any(low in pair for pair in PRONOUNS.values()):
        return "P"
    if low in (*SINGULAR, *PLURAL):
        return "a"
    return (
        "by"
        if low in PREPOSITIONS
        else {many: one for one, many in AGREEING.values()}.get(low, low)
    )


def skeleton(text: str) -> str:
    """What is left of a sentence without its content words."""
    found = [plain(mark) for mark in MARKS.findall(text)]
    return " ".join(found[1:] if found[0] in OPENERS else found)


def probe_skeleton(text: str) -> str:
    """The skeleton of a probe's template: slots are `{a.singular|target}` or `{the|target}`."""
    pronouns = ("subject", "object", "possessive", "reflexive")

    def shown(slot: re.Match[str]) -> str:
        name, _, form = slot[1].partition(".")
        return name if not form else "he" if form in pronouns else "_"

    return skeleton(re.sub(r"\{([^{}|]+)(?:\|[^{}]*)?\}", shown, text))


def test_each_group_has_every_kind_of_word():
    for group in range(GROUPS):
        for gender in "fm":
            assert len(words("names", group, gender=gender)) == 4
            assert len(words("nouns", group, kind="person", gender=gender)) == 2
        for kind in ("person", "animal", "thing", "place"):
            assert len(words("nouns", group, kind=kind)) >= 4
        for kind in ("transitive", "intransitive"):
            assert len(words("verbs", group, kind=kind)) >= 4


def test_each_form_is_in_one_group():
    groups: dict[str, set[int]] = {}
    for form, group in forms():
        groups.setdefault(form, set()).add(group)
    assert [form for form, found in groups.items() if len(found) > 1] == []


def test_no_word_stands_twice_in_a_list():
    assert all(len(set(entries(file))) == len(entries(file)) for file in FILES)


def test_unknown_lists_and_words_are_named():
    with pytest.raises(ValueError, match="no word list 'ajectives'; known: names"):
        entries("ajectives")
    with pytest.raises(ValueError, match="no word in nouns has group=0"):
        words("nouns", 0, kind="planet")


def test_documents_come_from_one_group():
    for seed in range(2000):
        text = document(seed)
        assert len(groups_in(text)) <= 1, text


def test_a_seed_fixes_the_document():
    assert document("a") == document("a")
    assert len({document(seed) for seed in range(50)}) == 50


def test_frames_hold_no_content_word_of_their_own():
    for row in frames():
        literal = " ".join(part for part in parse(row["frame"]) if not isinstance(part, Slot))
        assert not groups_in(literal), row["frame"]


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_frame_can_be_filled(group: int):
    for row in frames():
        text = fill(row["frame"], repeat(group), Random(group))
        assert not re.search(r"\{[a-z]+\d|:(one|many)", text), text


def test_an_unknown_slot_is_named():
    with pytest.raises(ValueError, match="'planet', which is no slot"):
        fill("The {planet1}.", repeat(0), Random(0))


def test_agreement_in_the_grammar():
    for seed in range(50):
        noun, verb = fill("{thing1} {is1}", repeat(0), Random(seed)).split()
        plurals = {entry.plural for entry in words("nouns", 0, kind="thing")}
        assert verb == ("are" if noun in plurals else "is")


def test_brackets_in_documents_close():
    for seed in range(500):
        open_marks = []
        for mark in re.findall(r"[()\[\]{}]", document(seed)):
            if mark in "([{":
                open_marks.append(mark)
            else:
                assert open_marks.pop() + mark in ("()", "[]", "{}")
        assert not open_marks


@cache
def training_skeletons() -> frozenset[str]:
    filled = (fill(row["frame"], repeat(0), Random(k)) for row in frames() for k in range(4))
    return frozenset(
        skeleton(part) for text in filled for part in (text, *re.split(r"(?<=[.?!]) ", text))
    )


@pytest.mark.parametrize("role", files_of_templates())
def test_no_probe_template_is_a_training_frame(role: str):
    found: tuple[Template, ...] = templates(role)
    shared = [
        t.id
        for t in found
        for text in (t.text, t.twin)
        if text and probe_skeleton(text) in training_skeletons()
    ]
    assert shared == []


def test_no_heldout_template_is_a_training_frame():
    made = [item for task in TASKS for item in items(task, seed=0, each=4)]
    assert [i.prompt for i in made if skeleton(i.prompt) in training_skeletons()] == []


def test_heldout_items_draw_each_word_from_another_group():
    for task in TASKS:
        for item in items(task, seed=0, each=20):
            found = [plain(w) == "_" and group_of(w) for w in set(WORD.findall(item.prompt))]
            used = Counter(group for group in found if group is not False)
            assert max(used.values(), default=1) == 1, item.prompt


def test_predictable_tokens_are_those_of_later_copies():
    made = repeat_tokens(tuple(range(2, 900)), Random(3), 60)
    for position in made.predictable:
        before = made.ids[:position]
        assert made.ids[position] in before
        assert made.ids[position - 1] in before[:-1]


def test_copies_repeat_themselves():
    for made in copies(500, seed=0, count=20):
        period = len(made.predictable) + 1
        assert made.ids[-period:] == made.ids[1 : 1 + period]
