"""Random sequences: nothing repeats by chance, nothing stands at a fixed distance."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from rolecall.probes.aligner import id_aligner
from rolecall.probes.base import Example
from rolecall.probes.current_token import current_token
from rolecall.probes.duplicate_token import duplicate_token
from rolecall.probes.first_token import first_token
from rolecall.probes.induction import induction, second_copy
from rolecall.probes.next_token import next_token
from rolecall.probes.previous_token import previous_token
from rolecall.probes.sequences import distinct_ids, repeats, shifted

ALIGNER = id_aligner(300, bos=0, reserved=[1, 2])


def versions(example: Example) -> list[Example]:
    return [one for one in (example, example.twin) if one is not None]


def test_c33_ids_are_drawn_without_replacement():
    ids = distinct_ids(id_aligner(31, bos=0), 20, Random(3))
    assert len(set(ids)) == 20


def test_c33_a_vocabulary_too_small_is_told():
    with pytest.raises(ValueError, match=r"20 different tokens are wanted.* only 9"):
        distinct_ids(id_aligner(10, bos=0), 20, Random(3))


def test_c33_roles_count_what_does_not_fit():
    tiny = id_aligner(10, bos=0)
    made = induction.dataset(tiny, n=22, seed=0)
    assert len(made.examples) + sum(made.dropped.values()) == 22
    assert sum(made.dropped.values()) > 0
    for example in made.examples:
        assert max(Counter(example.token_ids[1:]).values()) <= 3


def test_special_and_reserved_ids_are_never_drawn():
    for role in (induction, duplicate_token, previous_token, current_token, first_token):
        for example in role.dataset(ALIGNER, n=20, seed=1).examples:
            assert set(example.token_ids[1:]).isdisjoint({0, 1, 2})


def test_a_shift_moves_only_the_first_copy():
    made = repeats(ALIGNER, Random(0), period=4, before=2, gaps=(3,))
    moved = shifted(made, 2)
    assert moved[4:8] == made.ids[2:6]
    assert moved[9:] == made.ids[9:]
    assert Counter(moved) == Counter(made.ids)
    with pytest.raises(ValueError, match="by 3 at most, not 4"):
        shifted(made, 4)


def test_induction_targets_follow_every_earlier_copy_and_nothing_else():
    for example in induction.dataset(ALIGNER, n=44, seed=2).examples:
        for one in versions(example):
            for link in one.links:
                (q,) = link.query
                by_hand = [
                    k + 1 for k in range(q) if one.token_ids[k] == one.token_ids[q] and k + 1 < q
                ]
                assert list(link.target) == by_hand


def test_c34_a_token_is_never_its_own_target():
    for role in (induction, duplicate_token):
        for example in role.dataset(ALIGNER, n=44, seed=2).examples:
            assert all(set(link.query).isdisjoint(link.target) for link in example.links)


def test_no_fixed_distance_does_well_as_induction():
    examples = induction.dataset(ALIGNER, n=110, seed=0).examples
    links = [link for example in examples for link in example.links]
    distances = Counter(link.query[0] - p for link in links for p in link.target)
    assert max(distances.values()) / len(links) < 0.2
    assert len(distances) > 15


def test_the_twin_of_a_repeat_has_the_same_queries_and_other_keys():
    for role in (induction, duplicate_token):
        for example in role.dataset(ALIGNER, n=40, seed=5).examples:
            assert example.twin is not None
            pairs = list(zip(example.links, example.twin.links, strict=True))
            assert all(one.query == other.query for one, other in pairs)
            assert all(one.target != other.target for one, other in pairs)


def test_duplicates_are_the_same_token_and_stand_apart_from_one_another():
    for example in duplicate_token.dataset(ALIGNER, n=40, seed=5).examples:
        ids = example.token_ids
        for link in example.links:
            (q,), (k,) = link.query, link.target
            assert ids[q] == ids[k]
            assert k < q - 1
            # Neither neighbour repeats too, or an induction head would do as well.
            assert ids[q - 1] != ids[k - 1]


def test_lags_of_duplicates_spread():
    links = [x for e in duplicate_token.dataset(ALIGNER, n=80, seed=0).examples for x in e.links]
    lags = Counter(link.query[0] - link.target[0] for link in links)
    assert len(lags) > 20
    assert max(lags.values()) / len(links) < 0.25


@pytest.mark.parametrize(
    ("role", "offset", "causal"),
    [(previous_token, -1, True), (current_token, 0, True), (next_token, 1, False)],
)
def test_positional_links_stand_late_and_on_unrepeated_tokens(role, offset, causal):
    aligner = id_aligner(300, bos=0, eos=None if causal else 1, causal=causal)
    for example in role.dataset(aligner, n=24, seed=0).examples:
        count = Counter(example.token_ids)
        for link in example.links:
            (q,), (k,) = link.query, link.target
            assert k - q == offset
            assert q - 1 >= 8
            assert count[example.token_ids[q]] == count[example.token_ids[k]] == 1
            assert (k,) not in link.rivals


def test_the_sink_is_the_first_position_with_and_without_bos():
    for aligner in (ALIGNER, id_aligner(300)):
        for example in first_token.dataset(aligner, n=8, seed=0).examples:
            assert {link.target for link in example.links} == {(0,)}


def test_the_loss_is_taken_where_the_token_can_be_known():
    for item in second_copy(ALIGNER, n=18, seed=0).items:
        for p in item.positions:
            before = item.token_ids[:p]
            assert item.token_ids[p] in before
            assert item.token_ids[p - 1] in before[:-1], "its predecessor is a repeat as well"


def test_short_contexts_get_shorter_sequences():
    short = id_aligner(300, bos=0, max_length=16)
    for role in (previous_token, first_token, duplicate_token):
        made = role.dataset(short, n=24, seed=0)
        assert made.examples
        assert max(len(example.token_ids) for example in made.examples) <= 16
    assert sum(induction.dataset(short, n=24, seed=0).dropped.values()) == 24, "blocks stay long"
