"""Character spans to examples: how a role that is written on text becomes token positions.

Nothing is guessed: what cannot be aligned is dropped and counted by its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rolecall.probes.aligner import Aligner, Encoded
from rolecall.probes.base import Crafted, Example, Link, Positions

Span = tuple[int, int]
"""First character and the one behind the last."""

NO_TEXT = "the model has no tokenizer"
UNKNOWN = "a word is unknown to the tokenizer"
TOO_LONG = "longer than the model's context"
NOT_ALIGNED = "a marked word has no token"
SHARED = "query and target share a token"
FUTURE = "target is to the right of the query, hidden from a decoder"
LONE = "no link could be used"
TWIN = "twin of another length: example kept without it"


@dataclass(frozen=True)
class TextLink:
    """A link in characters.

    Attributes:
        query: The word looked from.
        target: The spans looked at, taken together.
        rivals: Each rival, itself one or more spans taken together.
        frequent: The spans that an account by word frequency would choose, if there is one.
    """

    query: Span
    target: tuple[Span, ...]
    rivals: tuple[tuple[Span, ...], ...] = ()
    frequent: tuple[Span, ...] = ()


@dataclass(frozen=True)
class TextExample:
    """A text with its links in characters, and its twin.

    >>> TextExample("a b", "t", (TextLink((2, 3), ((0, 1),)),)).links[0].query
    (2, 3)
    """

    text: str
    template: str
    links: tuple[TextLink, ...]
    twin: TextExample | None = None


def aligned(aligner: Aligner, texts: Sequence[TextExample]) -> Crafted:
    """The texts as token examples, with a count of everything that had to be left out.

    A link whose target or query has no token, or whose target a decoder cannot see, is left out;
    a rival that cannot be seen is left out of its link. An example without links is dropped; one
    whose twin has another length, or other links, stays without the twin.
    """
    if aligner.tokenizer is None:
        return Crafted((), {NO_TEXT: len(texts)})
    dropped: Counter[str] = Counter()
    pairs = [(text, text.twin) for text in texts]
    flat = [one.text for pair in pairs for one in pair if one is not None]
    encoded = aligner.encode_each(flat)
    examples: list[Example] = []
    for text, twin in pairs:
        main = _example(aligner, text, next(encoded), dropped)
        # A twin that fails is counted once, as a twin; its own reasons would count links twice.
        other = None if twin is None else _example(aligner, twin, next(encoded), Counter())
        if main is None:
            continue
        if twin is not None and (other is None or not _alike(main, other)):
            dropped[TWIN] += 1
            other = None
        examples.append(_with_twin(main, other))
    return Crafted(tuple(examples), dict(dropped))


def _alike(one: Example, other: Example) -> bool:
    same_length = len(one.token_ids) == len(other.token_ids)
    return same_length and len(one.links) == len(other.links)


def _with_twin(example: Example, twin: Example | None) -> Example:
    return Example(example.token_ids, example.template, example.words, example.links, twin)


def _example(
    aligner: Aligner, text: TextExample, encoded: Encoded, dropped: Counter[str]
) -> Example | None:
    if encoded.unknown:
        dropped[UNKNOWN] += 1
        return None
    if len(encoded.token_ids) > aligner.max_length:
        dropped[TOO_LONG] += 1
        return None
    links: list[Link] = []
    for link in text.links:
        made = _link(aligner, encoded, link)
        if isinstance(made, str):
            dropped[made] += 1
        else:
            links.append(made)
    if not links:
        dropped[LONE] += 1
        return None
    return Example(encoded.token_ids, text.template, aligner.words(encoded), tuple(links))


def _link(aligner: Aligner, encoded: Encoded, link: TextLink) -> Link | str:
    """The link in token positions, or the reason why it cannot be used."""
    word = aligner.positions(encoded, *link.query)
    target = _union(aligner, encoded, link.target)
    if not word or not target:
        return NOT_ALIGNED
    if not set(word).isdisjoint(target):
        return SHARED
    query = aligner.query(word)
    if not _visible(aligner, query, target):
        return FUTURE
    taken = {*word, *target}
    rivals = [_union(aligner, encoded, rival) for rival in link.rivals]
    frequent = _union(aligner, encoded, link.frequent)
    return Link(
        query=query,
        target=target,
        rivals=tuple(
            r for r in rivals if r and taken.isdisjoint(r) and _visible(aligner, query, r)
        ),
        frequent=frequent if frequent and _visible(aligner, query, frequent) else None,
    )


def _union(aligner: Aligner, encoded: Encoded, spans: Sequence[Span]) -> Positions:
    return tuple(sorted({p for span in spans for p in aligner.positions(encoded, *span)}))


def _visible(aligner: Aligner, query: Positions, key: Positions) -> bool:
    return not aligner.causal or key[-1] <= query[-1]
