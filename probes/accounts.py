"""What simpler accounts would say of a link: a fixed offset, the nearest candidate, the same word.

A role counts for something only where it beats them. Each account points at one key; it is right
where that key is the target. No model is needed for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rolecall.probes.base import Example, Link, Positions


@dataclass(frozen=True)
class Standing:
    """Which simpler accounts happen to be right on one link.

    Attributes:
        offsets: Distances in words from the query's word at which an offset head would be right;
            negative is to the left. Distance 0 is the query's own word.
        nearest: The target is nearer to the query than every rival; None without rivals.
        first: The target stands before every rival; None without rivals.
        same_word: The last earlier copy of the query's word is the target; None without a copy.
        frequency: The span chosen by word frequency is the target; None where there is no such.
    """

    offsets: tuple[int, ...]
    nearest: bool | None
    first: bool | None
    same_word: bool | None
    frequency: bool | None


def standing(example: Example, link: Link) -> Standing:
    """Which simpler accounts are right on this link.

    >>> example = Example((9, 5, 6, 5), "t", ((1,), (2,), (3,)), ())
    >>> standing(example, Link(query=(3,), target=(1,), rivals=((2,),)))
    Standing(offsets=(-2,), nearest=False, first=True, same_word=True, frequency=None)
    """
    query = link.query[-1]
    return Standing(
        offsets=_offsets(example, link),
        nearest=_before(link, key=lambda span: min(abs(query - p) for p in span)),
        first=_before(link, key=lambda span: span[0]),
        same_word=_same_word(example, link),
        frequency=None if link.frequent is None else _overlap(link.frequent, link.target),
    )


def _overlap(one: Positions, other: Positions) -> bool:
    return not set(one).isdisjoint(other)


def _own(example: Example, link: Link) -> int | None:
    return next((i for i, word in enumerate(example.words) if link.query[-1] in word), None)


def _offsets(example: Example, link: Link) -> tuple[int, ...]:
    own = _own(example, link)
    if own is None:
        return ()
    return tuple(i - own for i, word in enumerate(example.words) if _overlap(word, link.target))


def _before(link: Link, *, key) -> bool | None:
    if not link.rivals:
        return None
    return key(link.target) < min(key(rival) for rival in link.rivals)


def _same_word(example: Example, link: Link) -> bool | None:
    own = _own(example, link)
    if own is None:
        return None

    spelled = _spelled(example, example.words[own])
    for word in reversed(example.words[:own]):
        if len(word) == len(spelled) and _spelled(example, word) == spelled:
            return _overlap(word, link.target)
    return None


def _spelled(example: Example, word: Positions) -> list[int]:
    return [example.token_ids[p] for p in word]
