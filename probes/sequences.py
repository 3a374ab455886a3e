"""Seeded token sequences in which nothing repeats by chance: what a repeat means is then sure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Positions


def distinct_ids(aligner: Aligner, length: int, rng: Random) -> tuple[int, ...]:
    """So many different ordinary ids, drawn without replacement.

    Raises:
        ValueError: The vocabulary has fewer ordinary ids than that.

    >>> from rolecall.probes.aligner import id_aligner
    >>> sorted(distinct_ids(id_aligner(5, bos=0), 4, Random(0)))
    [1, 2, 3, 4]
    """
    if length > len(aligner.ordinary):
        raise ValueError(
            f"{length} different tokens are wanted, but the vocabulary has only "
            f"{len(aligner.ordinary)} ordinary ones; use a shorter length"
        )
    return tuple(rng.sample(aligner.ordinary, length))


def room(aligner: Aligner) -> int:
    """How many ordinary tokens fit, without repeats, into one input of the model."""
    framed = aligner.start + (aligner.eos is not None)
    return min(aligner.max_length - framed, len(aligner.ordinary))


def singles(token_ids: tuple[int, ...], positions: range) -> tuple[Positions, ...]:
    """Every position as a word of its own, which is what random ids are."""
    return tuple((p,) for p in positions if p < len(token_ids))


@dataclass(frozen=True)
class Repeats:
    """A block of different tokens that stands in a sequence more than once.

    Attributes:
        ids: The sequence without special tokens.
        starts: Where each copy begins.
        period: The block's length.
    """

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    period: int


def repeats(
    aligner: Aligner, rng: Random, *, period: int, before: int, gaps: tuple[int, ...]
) -> Repeats:
    """A block with fillers before it and between its copies, no filler twice.

    Args:
        aligner: Gives the ids.
        rng: Source of all choices.
        period: Length of the block.
        before: Number of fillers before the first copy.
        gaps: Number of fillers between one copy and the next; one more copy than gaps.

    >>> from rolecall.probes.aligner import id_aligner
    >>> made = repeats(id_aligner(9), Random(0), period=2, before=1, gaps=(3,))
    >>> made.starts, made.ids[1:3] == made.ids[6:8], len(set(made.ids))
    ((1, 6), True, 6)
    """
    ids = distinct_ids(aligner, period + before + sum(gaps), rng)
    block, fillers = ids[:period], list(ids[period:])
    sequence = [*fillers[:before]]
    fillers = fillers[before:]
    starts = []
    for gap in (*gaps, 0):
        starts.append(len(sequence))
        sequence += [*block, *fillers[:gap]]
        fillers = fillers[gap:]
    return Repeats(tuple(sequence), tuple(starts), period)


def shifted(made: Repeats, by: int) -> tuple[int, ...]:
    """The sequence with its first copy moved to the right, past so many of the fillers behind it.

    All later copies stay where they are, so only the place of the earlier one has changed.

    Raises:
        ValueError: There are not so many fillers behind the first copy.

    >>> shifted(Repeats((5, 6, 1, 2, 5, 6), starts=(0, 4), period=2), 1)
    (1, 5, 6, 2, 5, 6)
    """
    start, end = made.starts[0], made.starts[0] + made.period
    if not 0 <= by <= made.starts[1] - end:
        raise ValueError(f"the first copy can move by {made.starts[1] - end} at most, not {by}")
    moved = made.ids[end : end + by] + made.ids[start:end]
    return made.ids[:start] + moved + made.ids[end + by :]
