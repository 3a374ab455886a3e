"""Generic damage: what removing a head costs on unrelated natural text.

A head whose absence damages every text is no specialist, however large its effect on one task.
"""

from __future__ import annotations

from collections import defaultdict

from rolecall.analyses.effects import DAMAGE
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Item, Task
from rolecall.probes.passages import passages

EVERY = 7
"""In an encoder every so many-th token is masked and predicted."""


def natural_text(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Loss on every token of about `n` passages of natural text that we wrote.

    The twin of a passage is another one of the same length, so that heads can be resampled here
    too.
    """
    found, dropped = passages(aligner, n=n, seed=seed)
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, passage in enumerate(found):
        by_length[len(passage.token_ids)].append(number)
    twin: dict[int, tuple[int, ...]] = {}
    for numbers in by_length.values():
        for here, there in zip(numbers, numbers[1:] + numbers[:1], strict=True):
            if here != there:
                twin[here] = found[there].token_ids
    items = tuple(
        Item(
            token_ids=passage.token_ids,
            template=passage.title,
            positions=_scored(aligner, len(passage.token_ids)),
            twin_token_ids=twin.get(number),
        )
        for number, passage in enumerate(found)
    )
    return Task(DAMAGE, "loss", items, dropped)


def _scored(aligner: Aligner, length: int) -> tuple[int, ...]:
    if aligner.causal:
        return tuple(range(1, length))
    return tuple(range(1, max(2, length - 1), EVERY))
