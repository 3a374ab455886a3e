"""Tasks on a planted model whose effects are known: heads' votes on the answer of a role.

A head that looks at its target adds `gain × vote of the target` to the logit difference between
the answer and the foil it votes on (`planted.Design`), and no other head touches that. The right
answer is the one the target votes for, so zeroing the head costs its gain, directly and in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import cast

import torch
from torch import nn

from rolecall.analyses.planted import Planted, Seat
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Example, Item, Link, Probe, Task
from rolecall.probes.registry import BUILT_IN

STEP = 16
"""Prompts of a decoder have multiples of it as lengths, so that many run at once."""
SPARE = 12
"""Examples that are made for each item that is wanted: not every one makes an item."""
LEAST = 10
"""Items of a task below which an effect on all of them could still be chance over all heads."""


def planted_tasks(planted: Planted, aligner: Aligner, *, n: int, seed: int) -> list[Task]:
    """The task of each role that has one and a planted head, named as its probe names it.

    Each item is a template of its own, for what a word votes has nothing to do with templates.

    Args:
        planted: From `planted_designs.build`.
        aligner: Of that model.
        n: Items a task, of one example each.
        seed: Fixes the examples.

    Raises:
        ValueError: A task has too few items to show an effect.
    """
    tasks = []
    for role, seat in asked(planted).items():
        probe = PROBES[role]
        examples = probe.dataset(aligner, n=SPARE * n, seed=seed).examples
        found = islice(one_each(planted, seat, examples), n)
        items = tuple(replace(item, template=f"item {i}") for i, item in enumerate(found))
        if len(items) < LEAST:
            raise ValueError(
                f"the planted task of {role!r} needs {LEAST} items and has {len(items)}; "
                "plant another seed"
            )
        tasks.append(Task(task_name(probe), "logit_difference", items))
    return tasks


PROBES = {probe.name: probe for probe in BUILT_IN if probe.task is not None}


def asked(planted: Planted) -> dict[str, Seat]:
    """Role → the seat whose answer its task asks for, of the planted roles that have a task."""
    return {
        head.name: seat
        for seat, head in planted.heads.items()
        if head.name == head.role and head.role in PROBES
    }


def task_name(probe: Probe) -> str:
    """What the manifest calls a role's task."""
    return str(getattr(probe.task, "__name__", probe.name))


def one_each(planted: Planted, seat: Seat, examples: Iterable[Example]) -> Iterator[Item]:
    """Yields the first item of each example that has one."""
    shared = any(seat in others for others in planted.design.also_for.values())
    for example in examples:
        for link in example.links:
            item = vote_item(planted, seat, example, link)
            # The broad head votes as the word before does: it must be right to matter.
            if item is not None and (not shared or said_before(planted, example, link)):
                yield item
                break


def said_before(planted: Planted, example: Example, link: Link) -> bool:
    """Whether the word before the query votes as the link's target does."""
    before, target = example.token_ids[link.query[-1] - 1], example.token_ids[link.target[0]]
    return link.query[-1] > 1 and bool(planted.votes[before] == planted.votes[target])


def vote_task(planted: Planted, seat: Seat, examples: Iterable[Example]) -> Task:
    """A logit-difference task that only heads that vote on this seat's answer can do.

    Args:
        planted: A planted model.
        seat: The head whose answer is asked for.
        examples: Of the role of that head. Links with several targets that do not agree in their
            vote are left out.
    """
    items = (vote_item(planted, seat, e, link) for e in examples for link in e.links)
    layer, head = seat
    kept = tuple(item for item in items if item is not None)
    return Task(f"vote of L{layer}H{head}", "logit_difference", kept)


def vote_item(planted: Planted, seat: Seat, example: Example, link: Link) -> Item | None:
    """The example with what the link's target votes for at its query, where that is one thing."""
    votes = {planted.votes[example.token_ids[p]].item() for p in link.target}
    if len(votes) != 1 or not asks_alike(planted, seat, example.token_ids[link.query[-1]]):
        return None
    answer, foil = planted.answers[seat]
    right, wrong = (answer, foil) if votes.pop() > 0 else (foil, answer)
    query = link.query[-1]
    token_ids = example.token_ids if encodes(planted) else rounded(example.token_ids, query + 1)
    return Item(
        token_ids=token_ids,
        template=example.template,
        position=query,
        answer=right,
        foil=wrong,
        twin_token_ids=turned(planted, token_ids, link),
    )


def rounded(token_ids: tuple[int, ...], needed: int) -> tuple[int, ...]:
    """The ids that a decoder needs and more: what follows the query is hidden from it.

    Example:
        >>> rounded(tuple(range(10)), 5)
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9)
    """
    return (token_ids + token_ids[-1:] * STEP)[: STEP * math.ceil(needed / STEP)]


def encodes(planted: Planted) -> bool:
    """Whether the model is an encoder."""
    return planted.design.architecture == "bert"


def asks_alike(planted: Planted, seat: Seat, query: int) -> bool:
    """Whether the head reads the same where an encoder puts a mask in this id's place."""
    if not encodes(planted) or planted.mask is None:
        return True
    table = cast("nn.Embedding", planted.model.get_input_embeddings()).weight.detach()
    word, mask = table[[query, planted.mask]]
    return all(
        torch.allclose(word @ match.query, mask @ match.query, atol=1e-4)
        for match in planted.heads[seat].matches
    )


def turned(planted: Planted, token_ids: tuple[int, ...], link: Link) -> tuple[int, ...]:
    """The ids with a target of the opposite vote, drawn from ids that do not stand there.

    Right for heads that go by position; one that goes by what the target is may not find it.
    """
    vote = planted.votes[token_ids[link.target[0]]]
    spoken = {i for pair in planted.answers.values() for i in pair}
    taken = {*token_ids, *spoken}
    ids = (planted.votes == -vote).nonzero().flatten().tolist()
    new = next(i for i in reversed(ids) if i not in taken)
    return tuple(new if p in link.target else i for p, i in enumerate(token_ids))
