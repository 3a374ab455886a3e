"""What every known role promises, whoever wrote it."""

from __future__ import annotations

import dataclasses
import warnings
from functools import cache

import numpy as np
import pytest
import torch

from rolecall.probes.base import Crafted, Example, Item, Probe
from rolecall.probes.contract import check_examples
from rolecall.probes.registry import PluginWarning, known
from rolecall.probes.scores import even_pattern, layout, read_links
from rolecall.probes.toy import toy_aligner

N = 24
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PluginWarning)
    PROBES = known()

every_role = pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
both_kinds = pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])


@cache
def crafted(probe: Probe, causal: bool, seed: int = 0) -> Crafted:
    if probe.needs_future and causal:
        pytest.skip("the key stands to the right, which a decoder cannot see")
    return probe.dataset(toy_aligner(causal=causal, pieces=True), n=N, seed=seed)


def versions(data: Crafted) -> list[Example]:
    return [version for example in data.examples for version in example.versions]


def ideal_pattern(example: Example) -> torch.Tensor:
    """One head a link; from each of its query positions it looks at the target alone."""
    length = len(example.token_ids)
    pattern = torch.zeros(1, len(example.links), length, length)
    pattern[:, :, :, 0] = 1.0
    for head, link in enumerate(example.links):
        for query in link.query:
            pattern[0, head, query] = 0.0
            pattern[0, head, query, list(link.target)] = 1.0 / len(link.target)
    return pattern


@every_role
@both_kinds
def test_there_are_examples_and_they_keep_the_contract(probe, causal):
    data = crafted(probe, causal)
    assert len(data.examples) >= N // 2, dict(data.dropped)
    check_examples(data, toy_aligner(causal=causal, pieces=True))


@every_role
@both_kinds
def test_there_are_templates_to_resample(probe, causal):
    data = probe.dataset(toy_aligner(causal=causal, pieces=True), n=96, seed=0)
    if not (probe.needs_future and causal):
        assert len({example.template for example in data.examples}) >= 8


@every_role
@both_kinds
def test_the_ideal_pattern_scores_1(probe, causal):
    aligner = toy_aligner(causal=causal, pieces=True)
    for example in versions(crafted(probe, causal)):
        reading = read_links(ideal_pattern(example), layout([example], aligner))
        own = torch.arange(len(example.links))
        assert torch.allclose(reading.mass[own, own], torch.ones(len(own)))
        assert torch.equal(reading.hit[own, own], torch.ones(len(own)))
        if reading.rivals.shape[2]:
            assert reading.rivals[own, own].abs().max() == 0.0


@every_role
@both_kinds
def test_an_even_pattern_scores_the_share_of_keys_that_are_right(probe, causal):
    aligner = toy_aligner(causal=causal, pieces=True)
    for example in versions(crafted(probe, causal))[:12]:
        where = layout([example], aligner)
        length = len(example.token_ids)
        mass = read_links(even_pattern(1, length, causal=causal), where).mass[:, 0]
        by_hand = [
            np.mean([len(link.target) / (query + 1 if causal else length) for query in link.query])
            for link in example.links
        ]
        assert mass.tolist() == pytest.approx(by_hand, abs=1e-6)


@every_role
@both_kinds
def test_permuting_heads_permutes_scores_and_leaves_the_pattern_alone(probe, causal):
    example = versions(crafted(probe, causal))[0]
    length = len(example.token_ids)
    pattern = torch.rand(1, 4, length, length, generator=torch.Generator().manual_seed(0))
    before = pattern.clone()
    order = torch.tensor([2, 0, 3, 1])
    where = layout([example], toy_aligner(causal=causal, pieces=True))
    one, other = read_links(pattern, where), read_links(pattern[:, order], where)
    assert torch.equal(one.mass[:, order], other.mass)
    assert torch.equal(one.hit[:, order], other.hit)
    assert torch.equal(pattern, before)


@every_role
@both_kinds
def test_the_seed_fixes_the_data(probe, causal):
    aligner = toy_aligner(causal=causal, pieces=True)
    assert probe.dataset(aligner, n=N, seed=0) == crafted(probe, causal)


@every_role
def test_another_seed_gives_other_data(probe):
    causal = not probe.needs_future
    assert crafted(probe, causal, 1).examples != crafted(probe, causal, 0).examples


@every_role
@both_kinds
def test_a_twin_moves_the_right_key(probe, causal):
    for example in crafted(probe, causal).examples:
        if example.twin is None:
            continue
        moved = [
            (one.target, dataclasses.astuple(one)) != (other.target, dataclasses.astuple(other))
            or example.token_ids != example.twin.token_ids
            for one, other in zip(example.links, example.twin.links, strict=True)
        ]
        assert any(moved)
        assert example.twin.twin is None


@every_role
@both_kinds
def test_every_link_can_be_looked_at_by_some_simpler_head(probe, causal):
    """A role without rivals cannot be told from a habit."""
    links = [link for example in versions(crafted(probe, causal)) for link in example.links]
    assert np.mean([bool(link.rivals) for link in links]) > 0.5


@every_role
def test_a_role_has_a_task_or_says_why_it_has_none(probe):
    assert (probe.task is None) == bool(probe.no_task)
    assert probe.definition.strip()
    assert probe.source.strip()
    assert probe.family.strip()


@every_role
def test_a_task_keeps_its_contract(probe):
    if not probe.tasks:
        pytest.skip(probe.no_task)
    for make in probe.tasks:
        task = make(toy_aligner(), n=N, seed=0)
        assert task == make(toy_aligner(), n=N, seed=0)
        assert len(task.items) >= N // 2, dict(task.dropped)
        for item in task.items:
            keeps_the_contract(item, task.metric, toy_aligner().d_vocab)


def keeps_the_contract(item: Item, metric: str, d_vocab: int) -> None:
    assert all(0 <= token < d_vocab for token in item.token_ids)
    if metric == "loss":
        assert item.positions
        assert min(item.positions) >= 1
        assert max(item.positions) < len(item.token_ids)
    else:
        assert item.answer is not None
        assert item.foil is not None
        assert item.answer != item.foil
        assert item.position is not None
        assert 0 <= item.position < len(item.token_ids)
    if item.twin_token_ids is not None:
        assert len(item.twin_token_ids) == len(item.token_ids)
        assert item.twin_token_ids != item.token_ids
