"""Patterns in, numbers out: small cases worked by hand, and identities."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Example, Link
from rolecall.probes.scores import even_pattern, layout, read_links


def ids_aligner(*, causal: bool = True, bos: int | None = 0) -> Aligner:
    return Aligner(
        tokenizer=None,
        d_vocab=100,
        causal=causal,
        bos=bos,
        eos=None,
        max_length=64,
        ordinary=tuple(range(1, 100)),
    )


def previous_token_example(length: int) -> Example:
    """Every position from 1 on looks at the one before it; no BOS."""
    return Example(
        token_ids=tuple(range(1, length + 1)),
        template="t",
        words=tuple((p,) for p in range(length)),
        links=tuple(Link(query=(q,), target=(q - 1,)) for q in range(1, length)),
    )


def previous_token_pattern(length: int) -> torch.Tensor:
    pattern = torch.zeros(1, 1, length, length)
    pattern[0, 0, 0, 0] = 1.0
    for query in range(1, length):
        pattern[0, 0, query, query - 1] = 1.0
    return pattern


def test_c29_a_perfect_previous_token_head_scores_1_and_an_even_one_29_percent():
    where = layout([previous_token_example(6)], ids_aligner(bos=None))
    assert read_links(previous_token_pattern(6), where).mass.mean() == 1.0
    even = read_links(even_pattern(1, 6, causal=True), where).mass.mean()
    assert even == pytest.approx(np.mean([1 / (i + 1) for i in range(1, 6)]))
    assert even == pytest.approx(0.29)


def test_c29_the_same_pattern_scores_0_at_another_offset():
    example = previous_token_example(6)
    links = tuple(Link(query=(q,), target=(q - 2,)) for q in range(2, 6))
    where = layout([Example(example.token_ids, "t", example.words, links)], ids_aligner(bos=None))
    assert read_links(previous_token_pattern(6), where).mass.sum() == 0.0


def test_c35_attention_to_a_word_is_summed_and_from_a_word_averaged():
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    pattern = rows.reshape(1, 1, 3, 3)
    words = ((0,), (1, 2))
    links = (Link(query=(1, 2), target=(0,)), Link(query=(1, 2), target=(1, 2)))
    where = layout([Example((5, 6, 7), "t", words, links)], ids_aligner(causal=False, bos=None))
    mass = read_links(pattern, where).mass[:, 0]
    assert mass.tolist() == pytest.approx([0.35, 0.65])


def test_c46_a_head_on_bos_is_first_token_and_not_delimiter():
    length = 11
    pattern = torch.zeros(1, 1, length, length)
    pattern[..., 0] = 1.0
    words = tuple((p,) for p in range(1, length))
    links = (Link(query=(10,), target=(4, 9)), Link(query=(10,), target=(0,)))
    where = layout([Example((0, *range(1, length)), "t", words, links)], ids_aligner())
    reading = read_links(pattern, where)
    assert reading.mass[:, 0].tolist() == [0.0, 1.0]
    assert reading.sink[:, 0].tolist() == [1.0, 1.0]


def test_c44_rows_are_queries_and_columns_are_keys():
    pattern = torch.zeros(1, 1, 3, 3)
    pattern[0, 0, 2, 0] = 1.0
    words = ((0,), (1,), (2,))
    example = Example((1, 2, 3), "t", words, (Link(query=(2,), target=(0,)),))
    where = layout([example], ids_aligner(bos=None))
    assert read_links(pattern, where).mass.item() == 1.0


def test_hit_leaves_out_the_querys_own_word_and_special_tokens_and_keys_to_the_right():
    pattern = torch.tensor([0.5, 0.1, 0.06, 0.04, 0.3]).expand(1, 1, 5, 5)
    words = ((1,), (2,), (3,), (4,))
    query, target = (3,), (1,)
    example = Example((0, 7, 8, 9, 6), "t", words, (Link(query=query, target=target),))
    where = layout([example], ids_aligner())
    assert where.is_candidate.tolist() == [[False, True, False, False]]
    assert read_links(pattern, where).hit.item() == 1.0


def test_ties_share_the_hit():
    example = Example((0, 7, 8, 9, 6), "t", ((1,), (2,), (3,), (4,)), (Link((4,), (1,)),))
    where = layout([example], ids_aligner())
    assert read_links(even_pattern(1, 5, causal=True), where).hit.item() == pytest.approx(1 / 3)


def test_a_link_without_rivals_beside_one_with_two_has_empty_slots():
    words = tuple((p,) for p in range(5))
    links = (Link((4,), (1,)), Link((4,), (1,), ((2,), (3,))))
    where = layout([Example((1, 2, 3, 4, 5), "t", words, links)], ids_aligner(bos=None))
    reading = read_links(even_pattern(1, 5, causal=True), where)
    assert where.has_rival.tolist() == [[False, False], [True, True]]
    assert reading.rivals[:, 0].tolist() == [[0.0, 0.0], pytest.approx([0.2, 0.2])]


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="examples of one length"):
        layout([previous_token_example(5), previous_token_example(6)], ids_aligner(bos=None))


@given(seed=st.integers(0, 1000), n_heads=st.integers(1, 5))
@settings(deadline=None, max_examples=20)
def test_permuting_heads_permutes_readings_and_the_pattern_is_left_as_it_was(seed, n_heads):
    generator = torch.Generator().manual_seed(seed)
    pattern = torch.rand(2, n_heads, 7, 7, generator=generator).tril()
    pattern = pattern / pattern.sum(dim=-1, keepdim=True)
    before = pattern.clone()
    where = layout([previous_token_example(7)] * 2, ids_aligner(bos=None))
    order = torch.randperm(n_heads, generator=generator)
    one, other = read_links(pattern, where), read_links(pattern[:, order], where)
    for name in ("mass", "hit", "sink"):
        assert torch.equal(getattr(one, name)[:, order], getattr(other, name))
    assert torch.equal(pattern, before)
