"""Links at a fixed distance, on random ids and on natural text: what positional heads look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Example, Link, Positions
from rolecall.probes.passages import passages
from rolecall.probes.sequences import distinct_ids, room, singles
from rolecall.probes.text import FUTURE

# Before this a decoder has so few keys that "the previous one" is a safe guess.
FIRST_QUERY = 8
LENGTHS = (20, 24, 28, 32, 36, 40, 44, 48)
LINKS = 12
NO_ROOM = "no query at position 8 or later with an unrepeated token"


def at_offset(
    aligner: Aligner, offset: int, *, rivals: tuple[int, ...], n: int, seed: int
) -> Crafted:
    """Examples in which every query looks at the token at a fixed distance from it.

    Half are random ids, each length a template; half are natural text, each paragraph a template.
    Queries stand at position 8 or later, and neither they nor their targets repeat in the example,
    so that no head that goes by content can find the target.

    Args:
        aligner: The model's tokens.
        offset: From query to target; negative is to the left.
        rivals: Other distances; those out of reach are left out.
        n: Number of examples.
        seed: Fixes the ids, the paragraphs and the queries.
    """
    if offset > 0 and aligner.causal:
        return Crafted((), {FUTURE: n})
    dropped: Counter[str] = Counter()
    examples: list[Example] = []
    rng = Random(seed)
    for template, ids, words in sequences(aligner, n=n, seed=seed, dropped=dropped):
        links = _links(aligner, ids, (offset, rivals), rng)
        if links:
            examples.append(Example(ids, template, words, links))
        else:
            dropped[NO_ROOM] += 1
    return Crafted(tuple(examples), dict(dropped))


def sequences(
    aligner: Aligner, *, n: int, seed: int, dropped: Counter[str]
) -> Iterator[tuple[str, tuple[int, ...], tuple[Positions, ...]]]:
    """Yields template, ids and words: natural text and random ids, half each.

    What could not be made is added to `dropped`. Without a tokenizer all are random.
    """
    natural = 0 if aligner.tokenizer is None else n // 2
    found, lost = passages(aligner, n=natural, seed=seed)
    dropped.update({reason: count for reason, count in lost.items() if count})
    for passage in found:
        yield f"text: {passage.title}", passage.token_ids, passage.positions
    rng = Random(seed)
    lengths = sorted({min(length, room(aligner)) for length in LENGTHS})
    for number in range(n - natural):
        length = lengths[number % len(lengths)]
        ids = aligner.frame(distinct_ids(aligner, length, rng))
        yield f"random: {length}", ids, singles(ids, range(aligner.start, aligner.start + length))


def _links(
    aligner: Aligner, ids: tuple[int, ...], offsets: tuple[int, tuple[int, ...]], rng: Random
) -> tuple[Link, ...]:
    offset, rivals = offsets
    first, last = aligner.start, len(ids) - 1 - (aligner.eos is not None)
    count = Counter(ids)
    queries = [
        q
        for q in range(first + FIRST_QUERY, last + 1)
        if q + offset <= last and count[ids[q]] == 1 and count[ids[q + offset]] == 1
    ]
    chosen = sorted(rng.sample(queries, min(LINKS, len(queries))))
    return tuple(
        Link(
            query=(q,),
            target=(q + offset,),
            rivals=tuple(
                (q + other,)
                for other in rivals
                if q + other <= last and not (aligner.causal and other > 0)
            ),
        )
        for q in chosen
    )
