"""Duplicate-token heads: to earlier copies of the present token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Example, Link, Positions, Task, probe
from rolecall.probes.choice import crafted, task
from rolecall.probes.frequency import is_content
from rolecall.probes.passages import Passage, passages
from rolecall.probes.sequences import distinct_ids, room, singles

LAGS = ((2, 3), (4, 5), (6, 8), (9, 11), (12, 15), (16, 20), (21, 26), (27, 34))
LENGTH = 48
LINKS = 4
TOO_SMALL = "context or vocabulary too small for the lag"
NO_REPEAT = "a passage in which no content word comes again"


def recall(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Which noun followed an adjective that comes again; in the twin it was the other noun.

    >>> from rolecall.probes.toy import toy_aligner
    >>> item = recall(toy_aligner(), n=1, seed=0).items[0]
    >>> item.token_ids.index(item.answer) < item.twin_token_ids.index(item.answer)
    True
    """
    return task(aligner, "recall", crafted("recall_task", n=n, seed=seed))


@probe(
    family="induction",
    source="Wang et al. 2022, arXiv 2211.00593, section 3 (duplicate token heads)",
    score="mass",
    # Not `first`: nothing tells a head which of these rivals of ours stands first.
    accounts=("offset", "nearest"),
    task=recall,
)
def duplicate_token(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends to the earlier copies of the token it looks from, itself left out.

    Half random ids with single repeats at a drawn lag (each range of lags a template), half
    natural text with content words that come again (each paragraph a template). Rivals are what
    follows the copy, the previous token, and a token that is no copy.

    >>> from rolecall.probes.aligner import id_aligner
    >>> example = duplicate_token.dataset(id_aligner(99, max_length=12), n=1, seed=0).examples[0]
    >>> example.token_ids
    (40, 78, 81, 26, 70, 61, 56, 66, 33, 7, 1, 7)
    >>> [(link.query, link.target) for link in example.links]
    [((11,), (9,))]
    """
    rng = Random(seed)
    natural = 0 if aligner.tokenizer is None else n // 2
    found, lost = passages(aligner, n=natural, seed=seed)
    dropped = Counter({reason: count for reason, count in lost.items() if count})
    examples: list[Example] = []
    for passage in found:
        links = _in_passage(aligner, passage)
        if links:
            template = f"text: {passage.title}"
            examples.append(Example(passage.token_ids, template, passage.positions, links))
        else:
            dropped[NO_REPEAT] += 1
    for number in range(n - natural):
        made = _random(aligner, LAGS[number % len(LAGS)], rng)
        if made is None:
            dropped[TOO_SMALL] += 1
        else:
            examples.append(made)
    return Crafted(tuple(examples), dict(dropped))


def _random(aligner: Aligner, lags: tuple[int, int], rng: Random) -> Example | None:
    length = min(LENGTH, room(aligner))
    places = _places(length, lags, rng)
    if not places:
        return None
    ids = list(distinct_ids(aligner, length, rng))
    for query, copy, _ in places:
        ids[query] = ids[copy]
    # The twin exchanges each copy with a token that is none, so the right key moves.
    other = list(ids)
    for _, copy, decoy in places:
        other[copy], other[decoy] = other[decoy], other[copy]
    template = f"random: lag {lags[0]}-{lags[1]}"
    twin = _placed(aligner, other, template, [(q, d, c) for q, c, d in places])
    return _placed(aligner, ids, template, places, twin)


def _places(length: int, lags: tuple[int, int], rng: Random) -> list[tuple[int, int, int]]:
    """Query, copy and decoy of each repeat, none of them next to another's."""
    free = set(range(length))
    found = []
    for query in rng.sample(range(length), length):
        lag = rng.randint(*lags)
        copy = query - lag
        decoys = [d for d in range(1, query - 2) if d in free and abs(d - copy) > 2]
        if copy < 1 or not {query, copy} <= free or not decoys or len(found) == LINKS:
            continue
        decoy = rng.choice(decoys)
        found.append((query, copy, decoy))
        free -= {p + d for p in (query, copy, decoy) for d in (-1, 0, 1)}
    return sorted(found)


def _placed(
    aligner: Aligner,
    ids: Sequence[int],
    template: str,
    places: Sequence[tuple[int, int, int]],
    twin: Example | None = None,
) -> Example:
    s = aligner.start
    token_ids = aligner.frame(tuple(ids))
    links = tuple(
        Link(
            query=(s + query,),
            target=(s + copy,),
            rivals=tuple(
                (s + p,) for p in dict.fromkeys((decoy, copy + 1, query - 1)) if p != copy
            ),
        )
        for query, copy, decoy in places
    )
    words = singles(token_ids, range(s, s + len(ids)))
    return Example(token_ids, template, words, links, twin)


def _in_passage(aligner: Aligner, passage: Passage) -> tuple[Link, ...]:
    seen: dict[str, list[int]] = {}
    links = []
    for place, (word, _) in enumerate(passage.words):
        earlier = seen.setdefault(word.lower(), [])
        if earlier and is_content(word):
            links.append(_back(aligner, passage.positions, place, earlier))
        earlier.append(place)
    return tuple(link for link in links if link is not None)


def _back(
    aligner: Aligner, words: Sequence[Positions], place: int, earlier: Sequence[int]
) -> Link | None:
    target = tuple(p for e in earlier for p in words[e])
    # The first position is the sink's: a head resting there would be taken for a copy finder.
    if target[0] <= 0:
        return None
    after = tuple(p for e in earlier for p in words[e + 1] if e + 1 not in (*earlier, place))
    rivals = [after, words[place - 1]] if after else [words[place - 1]]
    taken = {*target, *words[place]}
    return Link(
        query=aligner.query(words[place]),
        target=target,
        rivals=tuple(dict.fromkeys(r for r in rivals if taken.isdisjoint(r))),
    )
