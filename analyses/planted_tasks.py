"""Tasks on a planted model whose effects are known: a head's vote on its own answer.

A head that looks at its target adds `gain × vote of the target` to the logit difference between
its answer and its foil, and no other head touches that. The right answer is the one the target
votes for, so removing the head costs its gain, directly and in all.
"""

from __future__ import annotations

from collections.abc import Iterable

from rolecall.analyses.planted import Planted, Seat
from rolecall.probes.base import Example, Item, Link, Task


def vote_task(planted: Planted, seat: Seat, examples: Iterable[Example]) -> Task:
    """A logit-difference task that only the head in this seat, if it does its job, can do.

    Args:
        planted: A decoder.
        seat: The head whose answer is asked for.
        examples: Of the role of that head. Links with several targets that do not agree in their
            vote are left out.
    """
    items = (vote_item(planted, seat, e, link) for e in examples for link in e.links)
    layer, head = seat
    kept = tuple(item for item in items if item is not None)
    return Task(f"vote of L{layer}H{head}", "logit_difference", kept)


def vote_item(planted: Planted, seat: Seat, example: Example, link: Link) -> Item | None:
    """The example up to the link's query, and what the link's target votes for there."""
    votes = {planted.votes[example.token_ids[p]].item() for p in link.target}
    if len(votes) != 1:
        return None
    answer, foil = planted.answers[seat]
    right, wrong = (answer, foil) if votes.pop() > 0 else (foil, answer)
    end = link.query[-1] + 1
    twin = turned(planted, example.token_ids[:end], link)
    return Item(
        token_ids=example.token_ids[:end],
        template=example.template,
        position=end - 1,
        answer=right,
        foil=wrong,
        twin_token_ids=twin,
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
