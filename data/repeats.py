"""Repeated token sequences: the documents that only a head which looks back can predict.

`[BOS] (filler) r (gap) r (gap) r …` with `r` a list of distinct random tokens. Nothing but the
earlier copy tells what comes next, and no fixed distance fits, for period and gap vary.
"""

from dataclasses import dataclass
from random import Random
from typing import cast

from transformers import PreTrainedTokenizerFast

from rolecall.data.lexicon import group_of


@dataclass(frozen=True)
class Repeat:
    """Token ids, and the positions whose token the earlier copy gives away."""

    ids: tuple[int, ...]
    predictable: tuple[int, ...]


def repeat_tokens(pool: tuple[int, ...], rng: Random, length: int, bos: int = 0) -> Repeat:
    """A sequence of `length` ids that repeats a random list of tokens from the pool.

    The first token of a copy is not counted as predictable: where a copy begins is free.

    Args:
        pool: ids to draw from.
        rng: source of all choices.
        length: number of ids, the BOS included.
        bos: id that stands first.

    Example:
        >>> repeat_tokens((7,), Random(0), 4).ids
        (0, 7, 7, 7)
    """
    # Shorter periods would let a head at a fixed small distance be right too often.
    longest = max(6, min(12, length // 2) if rng.random() < 0.6 else length // 2 - 2)
    period = min(rng.randint(6, longest), len(pool))
    plain = rng.random() < 0.5
    copied = rng.sample(pool, period)
    ids = [bos, *rng.choices(pool, k=0 if plain else rng.randint(0, 10))]
    predictable: list[int] = []
    copies = 0
    while len(ids) < length:
        if copies:
            predictable += range(len(ids) + 1, min(len(ids) + period, length))
        ids += copied
        copies += 1
        ids += rng.choices(pool, k=0 if plain else rng.randint(0, 12))
    return Repeat(tuple(ids[:length]), tuple(predictable))


def pools(
    tokenizer: PreTrainedTokenizerFast, group: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids a document of this group may use: all of them, and its own words alone.

    Content words of other groups are left out, so that repeats keep the promise of
    `rolecall.data.lexicon`.
    """
    special = set(tokenizer.all_special_ids)
    of = {i: group_of(cast("str", tokenizer.decode([i])).strip()) for i in range(len(tokenizer))}
    allowed = tuple(i for i in of if i not in special and of[i] in (None, group))
    return allowed, tuple(i for i in allowed if of[i] == group)
