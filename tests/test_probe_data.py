"""The crafted data of every role: balance, rivals, twins, words, and the tasks made beside it."""

from __future__ import annotations

import doctest
import re
import sys
from collections import Counter
from functools import cache

import numpy as np
import pytest

from rolecall.data.lexicon import GROUPS, group_of, words
from rolecall.data.templates import files_of_templates, templates, texts
from rolecall.probes.accounts import standing
from rolecall.probes.base import Crafted, Task, TaskFunction
from rolecall.probes.delimiter import MARKS
from rolecall.probes.frequency import is_content, zipf
from rolecall.probes.registry import BUILT_IN, find
from rolecall.probes.sentences import PRONOUNS, SLOT
from rolecall.probes.toy import toy_aligner

SYNTACTIC = ("subject_verb", "verb_object", "determiner", "adjective", "auxiliary")
WRITTEN = (*SYNTACTIC, "coreference", "earlier_mention", "bracket", "rare_token")
every_role = pytest.mark.parametrize("probe", BUILT_IN, ids=lambda probe: probe.name)
every_task = pytest.mark.parametrize(
    "make", [make for p in BUILT_IN for make in p.tasks], ids=lambda make: make.__name__
)
written = pytest.mark.parametrize("name", WRITTEN)
every_file = pytest.mark.parametrize("file", files_of_templates())


@cache
def made(name: str, *, causal: bool = True, n: int = 120) -> Crafted:
    (probe,) = find([name])
    return probe.dataset(toy_aligner(causal=causal), n=n, seed=3)


def spelled(ids: tuple[int, ...]) -> list[str]:
    return toy_aligner().tokenizer.convert_ids_to_tokens(list(ids))


@cache
def task_of(make: TaskFunction, **options: bool) -> Task:
    return make(toy_aligner(**options), n=60, seed=3)


@every_role
def test_the_example_in_the_docstring_runs(probe):
    # A probe is no function, so doctest's own search of the module passes it by.
    module = sys.modules[probe.dataset.__module__]
    finder = doctest.DocTestFinder(recurse=False)
    tests = finder.find(probe.dataset, probe.name, module=False, globs=dict(vars(module)))
    results = [doctest.DocTestRunner().run(test) for test in tests]
    assert sum(result.attempted for result in results) >= 3
    assert sum(result.failed for result in results) == 0


@every_role
def test_no_target_on_the_first_position_unless_that_is_the_role(probe):
    for bos in (True, False):
        aligner = toy_aligner(causal=not probe.needs_future, bos=bos)
        for example in probe.dataset(aligner, n=60, seed=3).examples:
            on_first = any(0 in link.target for link in example.links)
            assert on_first == (probe.name == "first_token")


@every_role
def test_roles_that_look_right_are_for_encoders(probe):
    crafted = probe.dataset(toy_aligner(), n=20, seed=0)
    assert bool(crafted.examples) == (not probe.needs_future)
    if probe.needs_future:
        assert sum(crafted.dropped.values()) == 20
        for example in probe.dataset(toy_aligner(causal=False), n=20, seed=0).examples:
            assert all(link.target[-1] > link.query[0] for link in example.links)


@written
def test_three_distances_or_more_and_no_modal_one(name):
    links = [(e, link) for e in made(name).examples for link in e.links]
    offsets = Counter(o for e, link in links for o in standing(e, link).offsets)
    assert len(offsets) >= 3
    assert max(offsets.values()) / len(links) <= 0.4


@written
def test_every_link_has_a_rival_and_the_nearest_is_right_in_half_at_most(name):
    standings = [standing(e, link) for e in made(name).examples for link in e.links]
    nearest = [s.nearest for s in standings]
    assert None not in nearest
    assert np.mean([bool(right) for right in nearest]) <= 0.55
    assert np.mean([bool(s.first) for s in standings]) <= 0.6


@pytest.mark.parametrize("name", [*SYNTACTIC, "coreference", "earlier_mention"])
def test_a_head_on_rare_words_is_right_in_half_or_so(name):
    standings = [standing(e, link) for e in made(name).examples for link in e.links]
    assert np.mean([bool(s.frequency) for s in standings]) <= 0.65


@written
def test_every_example_has_a_twin_in_which_another_word_is_right(name):
    crafted = made(name)
    assert all(example.twin is not None for example in crafted.examples), crafted.dropped
    for example in crafted.examples:
        assert example.twin is not None
        for one, other in zip(example.links, example.twin.links, strict=True):
            here, there = example.token_ids, example.twin.token_ids
            moved = one.target != other.target
            renamed = [here[p] for p in one.target] != [there[p] for p in other.target]
            assert moved or renamed


@written
def test_content_words_are_from_different_groups(name):
    for example in made(name, n=60).examples:
        content = {w for w in spelled(example.token_ids) if group_of(w) is not None}
        groups = Counter(group_of(word) for word in content)
        # Two forms of one word may be there; two words of a group may not.
        assert len(content) == len(groups), content


@every_file
def test_no_word_of_the_lexicon_is_written_out_in_a_template(file):
    for template in templates(file):
        for sentence in (template.text, template.twin, template.answer, template.foil):
            literal = SLOT.sub(lambda m: "" if "." in m[1] else m[1], sentence)
            for word in re.findall(r"[A-Za-z]+", literal):
                assert group_of(word) is None, (template.id, word)
                assert group_of(word.lower()) is None, (template.id, word)


@every_file
def test_at_least_eight_templates_with_ids_of_their_own(file):
    ids = [template.id for template in templates(file)]
    assert len(ids) == len(set(ids)) >= 8


@every_file
def test_every_slot_can_be_filled_from_every_group(file):
    for template in templates(file):
        for wanted in template.slots.values():
            name, *asked = wanted.split()
            if name == "pronouns":
                continue
            if name == "one":  # function words, which have no group
                assert len(asked) - 1 == len(set(asked[1:])) >= 2
                continue
            for group in range(GROUPS):
                for gender in "fm":
                    fields = {
                        "gender" if value in "xy" else "kind": gender if value in "xy" else value
                        for value in asked
                    }
                    assert words(name, group, **fields)


def test_no_article_stands_before_a_slot_it_may_not_fit():
    for file in files_of_templates():
        for template in templates(file):
            for sentence in (template.text, template.twin):
                assert not re.search(r"\b[Aa]n? \{\w+\.", sentence), template.id


def test_brackets_are_matched_by_depth():
    for example in made("bracket").examples:
        for one in (example, example.twin):
            assert one is not None
            tokens, stack, opener = spelled(one.token_ids), [], {}
            for p, token in enumerate(tokens):
                if token in "([":
                    stack.append(p)
                elif token in ")]":
                    opener[p] = stack.pop()
                    assert tokens[opener[p]] + token in ("()", "[]")
            assert not stack
            for link in one.links:
                assert link.target == (opener[link.query[0]],)


def test_the_rare_word_is_the_rarest_in_view():
    for example in made("rare_token").examples:
        for one in (example, example.twin):
            assert one is not None
            tokens = spelled(one.token_ids)
            for link in one.links:
                seen = [p for p in range(1, link.query[0] + 1) if tokens[p].isalpha()]
                assert link.target == (min(seen, key=lambda p: zipf(tokens[p])),)
                assert all(zipf(tokens[r[0]]) > zipf(tokens[link.target[0]]) for r in link.rivals)


def test_c46_delimiters_are_marks_and_never_the_first_position():
    for bos in (True, False):
        aligner = toy_aligner(bos=bos)
        (probe,) = find(["delimiter"])
        for example in probe.dataset(aligner, n=60, seed=0).examples:
            tokens = spelled(example.token_ids)
            for link in example.links:
                assert {tokens[p] for p in link.target} <= MARKS
                assert 0 not in link.target
                behind = {p for p in range(1, link.query[0]) if tokens[p] in MARKS}
                assert set(link.target) == behind
                assert all(not {tokens[p] for p in r} & MARKS for r in link.rivals)


def test_repeats_in_natural_text_are_content_words():
    natural = [e for e in made("duplicate_token").examples if e.template.startswith("text")]
    assert len({example.template for example in natural}) > 20
    for example in natural:
        tokens = spelled(example.token_ids)
        for link in example.links:
            here = tokens[link.query[0]].lower()
            assert is_content(here)
            assert {tokens[p].lower() for p in link.target} == {here}


def test_coreference_asks_from_pronouns_of_both_genders_alone():
    asked = Counter[str]()
    for example in made("coreference").examples:
        tokens = spelled(example.token_ids)
        asked.update(tokens[link.query[0]] for link in example.links)
    female, male = ({*vars(PRONOUNS[gender]).values()} for gender in "fm")
    assert set(asked) <= female | male
    assert 0.3 < sum(asked[word] for word in female) / asked.total() < 0.7


def test_a_head_on_the_same_word_finds_every_earlier_mention_and_no_antecedent():
    for name, right in (("earlier_mention", {True}), ("coreference", {None, False})):
        found = {standing(e, link).same_word for e in made(name).examples for link in e.links}
        assert found <= right, name


@every_task
def test_tasks_have_items_from_eight_templates(make):
    task = task_of(make)
    assert len(task.items) >= 45, task.dropped
    assert len({item.template for item in task.items}) >= 8
    assert len(task.items) + sum(v for k, v in task.dropped.items() if "kept" not in k) == 60


@every_task
def test_choices_are_single_tokens_in_both_orders_with_a_twin(make):
    task = task_of(make)
    if task.metric == "loss":
        for item in task.items:
            assert item.positions
            assert item.answer is None
            assert item.positions[0] > 0
            assert item.positions[-1] < len(item.token_ids)
        return
    pairs = Counter((item.answer, item.foil) for item in task.items)
    for item in task.items:
        assert item.answer != item.foil
        assert item.position == len(item.token_ids) - 1
        assert item.twin_token_ids is not None
        assert len(item.twin_token_ids) == len(item.token_ids)
        assert item.twin_token_ids != item.token_ids
    if task.name in ("agreement", "closing"):
        assert all((foil, answer) in pairs for answer, foil in pairs), "both orders are there"


@every_task
def test_the_seed_fixes_the_task(make):
    assert make(toy_aligner(), n=60, seed=3) == task_of(make)


@every_task
def test_an_encoder_without_a_mask_token_is_told_so(make):
    task = task_of(make, causal=False)
    if task.name != "second_copy":
        assert task.items == ()
        assert sum(task.dropped.values()) == 60


def test_the_paragraphs_are_many_and_differ():
    assert len(texts()) >= 60
    assert len(set(texts().values())) == len(texts())
    said = " ".join(texts().values())
    assert all(mark in said for mark in (",", ".", ";", ":", '"', "(", ")", "?", "\n"))
    repeating = 0
    for text in texts().values():
        content = Counter(w.lower() for w in re.findall(r"[A-Za-z]+", text) if is_content(w))
        repeating += content.most_common(1)[0][1] >= 2
    assert repeating >= 55
