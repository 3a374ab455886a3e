"""The lexicon's groups, the grammar, and the promise that probes and training share nothing."""

import re
from collections import Counter
from functools import cache
from itertools import repeat
from random import Random

import pytest

from rolecall.data.coined import coined
from rolecall.data.grammar import document, fill, frames, parse
from rolecall.data.heldout import LISTS, TASKS, copies, items
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


@pytest.mark.parametrize("file", LISTS)
def test_no_heldout_template_is_a_training_frame(file: str):
    made = [item for task in TASKS for item in items(task, seed=0, each=4, file=file)]
    assert [i.prompt for i in made if skeleton(i.prompt) in training_skeletons()] == []


def test_the_lists_share_no_template():
    prompts = [row["prompt"] for file in LISTS for row in frames(file)]
    assert len(prompts) == len(set(prompts))


@pytest.mark.parametrize("file", LISTS)
def test_heldout_items_draw_each_word_from_another_group(file: str):
    for task in TASKS:
        for item in items(task, seed=0, each=20, file=file):
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


def emphasised(frame: str) -> set[str]:
    """What a frame becomes with an emphasis on every slot, for some seeds."""
    return {fill(frame, repeat(0), Random(seed), emphatic=1) for seed in range(20)}


def test_behind_a_pronoun_comes_the_person_it_stands_for():
    for text in emphasised("{Name1} near {name2}: {he7}"):
        first, second = re.findall(r"[A-Z]\w+", text)[:2]
        pronoun, named_again = text.split(": ")[1].split()
        female = {entry.name for entry in words("names", gender="f")}
        assert named_again == (first if (first in female) == (pronoun == "she") else second)


@pytest.mark.parametrize("verb", ["is", "likes", "liked", "slept"])
def test_behind_a_verb_comes_the_reflexive_of_its_subject_and_not_of_the_noun_beside_it(verb: str):
    for text in emphasised(f"The {{thing1:one}} near the {{thing2:many}} {{{verb}1}}"):
        assert text.endswith(" itself")
    for text in emphasised(f"The {{thing1:many}} near the {{thing2:one}} {{{verb}1}}"):
        assert text.endswith(" themselves")


def test_behind_a_closing_bracket_comes_the_word_before_its_own_opening_one():
    for text in emphasised("we {open1}so they {open2}he did{close2} said{close1}"):
        assert re.fullmatch(r"we .so they .he did. they said. we", text)


def test_behind_a_name_said_again_comes_the_word_before_its_first_mention():
    for text in emphasised("Near {name1} and {adj} {name2} came {name1} and {name2}"):
        assert re.fullmatch(r"Near (\w+) and (\w+) (\w+) came \1 near and \3 \2", text)


def test_behind_a_noun_said_again_comes_nothing():
    for text in emphasised("Near the {role1} came the {role1}"):
        assert re.fullmatch(r"Near the (\w+) came the \1", text)


def test_without_emphasis_nothing_is_added_or_drawn():
    frame = "{Who1} {likes1} {himself1} {open2}so{close2}"
    plain = [fill(frame, repeat(0), Random(seed)) for seed in range(20)]
    assert plain == [fill(frame, repeat(0), Random(seed), emphatic=0) for seed in range(20)]
    assert all(len(text.split()) <= 5 for text in plain)


@pytest.mark.parametrize("ending", ["", "ed", "ly"])
def test_coined_words_are_of_no_list_and_no_frame(ending: str):
    of_lists = [re.sub(r"{[Cc]oined[^}]*}", "", row["frame"]) for row in frames()]
    said = {
        word.lower()
        for frame in of_lists
        for word in WORD.findall(fill(frame, repeat(0), Random(0)))
    }
    made = {coined(ending, Random(seed)) for seed in range(500)}
    assert len(made) > 250
    assert all(word.endswith(ending) and group_of(word) is None for word in made)
    assert not made & said


def test_a_coined_word_stands_only_where_nothing_refers_to_the_word():
    for seed in range(50):
        text = fill(
            "{Name1} {liked:v} {adj2} {who3} {prep} {adj} {thing4}",
            repeat(0),
            Random(seed),
            strange=1,
        )
        *kept, place, described, noun = text.split()
        assert all(group_of(word) == 0 for word in (kept[0], kept[1], kept[2], noun))
        assert group_of(described) is None
        assert place not in PREPOSITIONS


def test_without_coined_words_nothing_is_drawn_for_them():
    frame = "{Name1} {prep} {name2} {slept} {adv}"
    plain = [fill(frame, repeat(0), Random(seed)) for seed in range(20)]
    assert plain == [fill(frame, repeat(0), Random(seed), strange=0) for seed in range(20)]


def test_coined_words_agree_with_what_agreed_without_them():
    for seed in range(200):
        noun, _, _, verb = fill(
            "{thing1} {prep} {thing2} {is1}", repeat(0), Random(seed), strange=1
        ).split()
        plurals = {entry.plural for entry in words("nouns", 0, kind="thing")}
        assert verb == ("are" if noun in plurals else "is")
