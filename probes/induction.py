"""Induction heads: to what came after the earlier copy of the present token."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Example, Item, Link, Task, probe
from rolecall.probes.sequences import Repeats, repeats, shifted, singles

# Long enough that a head which spreads its attention evenly scores next to nothing.
PERIODS = ((12, 15), (16, 20), (21, 26))
FILLERS = ((4, 10), (11, 18), (19, 26))
COPIES = (2, 3)
CLASSES = tuple(
    (period, fillers, copies)
    for copies, period, fillers in product(COPIES, PERIODS, FILLERS)
    # Three long blocks would make the longest inputs half as long again.
    if copies == 2 or (period[1] <= 15 and fillers[1] <= 18)
)
TOO_SMALL = "context or vocabulary too small for the repeats"


def repeated(aligner: Aligner, *, n: int, seed: int) -> Iterator[tuple[str, Repeats | None]]:
    """Yields template and repeated block, classes in turn; None where it does not fit.

    Period and gap are drawn anew each time: were they fixed, a head at a fixed distance would pass
    for an induction head.
    """
    rng = Random(seed)
    for number in range(n):
        period, fillers, copies = CLASSES[number % len(CLASSES)]
        block, spare = rng.randint(*period), rng.randint(*fillers)
        # At least one filler behind the first copy, so that the twin can move it.
        gap = rng.randint(1, spare)
        gaps = (gap,) if copies == 2 else (gap, rng.randint(0, 3))
        length = copies * block + spare - gap + sum(gaps)
        template = "period {}-{}, fillers {}-{}, copies {}".format(*period, *fillers, copies)
        # Distinct tokens needed: the fillers and one block.
        wanted = length - (copies - 1) * block
        if not aligner.fits(length) or wanted > len(aligner.ordinary):
            yield template, None
            continue
        yield template, repeats(aligner, rng, period=block, before=spare - gap, gaps=gaps)


def second_copy(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Loss on the later copies of a block of random tokens, their first tokens left out.

    >>> from rolecall.probes.aligner import id_aligner
    >>> item = second_copy(id_aligner(99), n=1, seed=1).items[0]
    >>> len(item.positions), all(item.token_ids[p] in item.token_ids[:p] for p in item.positions)
    (12, True)
    """
    items = []
    dropped = 0
    for template, made in repeated(aligner, n=n, seed=seed):
        if made is None:
            dropped += 1
            continue
        positions = tuple(
            aligner.start + start + i for start in made.starts[1:] for i in range(1, made.period)
        )
        items.append(Item(aligner.frame(made.ids), template, positions=positions))
    counts = {TOO_SMALL: dropped} if dropped else {}
    return Task("second_copy", "loss", tuple(items), counts)


@probe(
    family="induction",
    source="Olsson et al. 2022, arXiv 2209.11895 (prefix matching on repeated random tokens)",
    score="mass",
    accounts=("offset", "same_word", "first", "nearest"),
    task=second_copy,
)
def induction(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends to the token after the earlier copies of the one it looks from.

    In the twin the first copy stands elsewhere. Rivals are the earlier copies themselves, the
    tokens two behind them, and the previous token.

    >>> from rolecall.probes.aligner import id_aligner
    >>> example = induction.dataset(id_aligner(99), n=1, seed=1).examples[0]
    >>> example.token_ids[7:12], example.token_ids[21:26]
    ((15, 63, 97, 57, 60), (32, 15, 63, 97, 57))
    >>> [(link.query, link.target) for link in example.links[:2]]
    [((21,), (7,)), ((22,), (8,))]
    """
    rng = Random(seed)
    examples = []
    dropped = 0
    for template, made in repeated(aligner, n=n, seed=seed):
        if made is None:
            dropped += 1
            continue
        by = rng.randint(1, made.starts[1] - made.starts[0] - made.period)
        moved = Repeats(shifted(made, by), (made.starts[0] + by, *made.starts[1:]), made.period)
        text, twin = (moved, made) if rng.random() < 0.5 else (made, moved)
        examples.append(_example(aligner, template, text, _example(aligner, template, twin)))
    return Crafted(tuple(examples), {TOO_SMALL: dropped} if dropped else {})


def _example(
    aligner: Aligner, template: str, made: Repeats, twin: Example | None = None
) -> Example:
    links = []
    for number, start in enumerate(made.starts[1:], start=1):
        earlier = [aligner.start + s for s in made.starts[:number]]
        for i in range(made.period - 1):
            query = aligner.start + start + i
            rivals = [tuple(s + i for s in earlier), (query - 1,)]
            if i + 2 < made.period:
                rivals.append(tuple(s + i + 2 for s in earlier))
            links.append(Link((query,), tuple(s + i + 1 for s in earlier), tuple(rivals)))
    ids = aligner.frame(made.ids)
    words = singles(ids, range(aligner.start, aligner.start + len(made.ids)))
    return Example(ids, template, words, tuple(links), twin)
