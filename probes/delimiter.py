"""Delimiter heads: to the full stops, commas, colons, semicolons and line breaks in view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from rolecall.data.templates import templates
from rolecall.probes.aligner import WORD, Aligner
from rolecall.probes.base import Crafted, Example, Link, Positions, Task, probe
from rolecall.probes.choice import crafted, task
from rolecall.probes.frequency import GRAMMAR, zipf
from rolecall.probes.passages import Passage, passages
from rolecall.probes.sentences import sentences
from rolecall.probes.text import Span, TextExample, TextLink, aligned

MARKS = frozenset(".,;:\n")
QUERIES = 6
NO_MARK = "a passage without a delimiter before its queries"


def separator(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Whether a list goes on with the mark that divided its parts so far, `;` or `,`.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> item = separator(aligner, n=1, seed=0).items[0]
    >>> aligner.tokenizer.decode(item.token_ids[1:])
    'They had the sailor ; the camel ; the spoon'
    >>> aligner.tokenizer.convert_ids_to_tokens([item.answer, item.foil])
    [';', ',']
    """
    return task(aligner, "separator", crafted("delimiter_task", n=n, seed=seed))


@probe(
    family="delimiter",
    source="Clark et al. 2019, arXiv 1906.04341, section 3.2 (attention to periods and commas)",
    score="mass",
    accounts=("offset", "frequency"),
    task=separator,
)
def delimiter(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a word to the delimiters in view: stop, comma, colon, semicolon, line break.

    Half crafted sentences whose twin has the delimiter elsewhere, half natural text. Special tokens
    and the first position are no delimiters here. Rivals are as many words right before them,
    right behind them, and of the commonest kind ("the", "and").

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = delimiter.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'Now the sailor swam , and then the camel came to the market'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((13,), (5,), ((4,), (6,), (12,)))
    """
    natural = 0 if aligner.tokenizer is None else n // 2
    made = sentences(templates("delimiter"), n=n - natural, seed=seed)
    sentence = aligned(aligner, [_marked(text) for text in made])
    dropped = Counter(sentence.dropped)
    found, lost = passages(aligner, n=natural, seed=seed)
    dropped.update({reason: count for reason, count in lost.items() if count})
    rng = Random(seed)
    examples = list(sentence.examples)
    for passage in found:
        links = _links(aligner, passage, rng)
        if links:
            template = f"text: {passage.title}"
            examples.append(Example(passage.token_ids, template, passage.positions, links))
        else:
            dropped[NO_MARK] += 1
    return Crafted(tuple(examples), dict(dropped))


def _marked(text: TextExample) -> TextExample:
    """The example with the delimiters of its text as targets and the words around as rivals."""
    spans = [m.span() for m in WORD.finditer(text.text)]
    words = [text.text[slice(*span)] for span in spans]

    def marked(link: TextLink) -> TextLink:
        target, rivals, frequent = _roles(words, spans.index(link.query), to_the_right=False)
        return replace(
            link,
            target=_at(spans, target),
            rivals=tuple(_at(spans, rival) for rival in rivals),
            frequent=_at(spans, frequent),
        )

    twin = None if text.twin is None else _marked(text.twin)
    return replace(text, links=tuple(marked(link) for link in text.links), twin=twin)


def _at(spans: Sequence[Span], places: Sequence[int]) -> tuple[Span, ...]:
    return tuple(spans[place] for place in places)


def _roles(
    words: Sequence[str], query: int, *, to_the_right: bool
) -> tuple[list[int], list[list[int]], list[int]]:
    """Places of the delimiters in view, of their rivals, and of the commonest words in view."""
    seen = [i for i in range(len(words)) if i != query and (to_the_right or i < query)]
    # The first word is left to the first-token role.
    target = [i for i in seen if i > 0 and words[i] in MARKS]
    plain = {i for i in seen if i > 0 and words[i][0].isalnum()}
    before = [i - 1 for i in target if i - 1 in plain]
    behind = [i + 1 for i in target if i + 1 in plain]
    common = [i for i in sorted(plain) if zipf(words[i]) >= GRAMMAR]
    # As many as there are delimiters, the nearest ones.
    common = sorted(common, key=lambda i: abs(query - i))[: len(target)]
    return target, [r for r in (before, behind, sorted(common)) if r], sorted(common)


def _links(aligner: Aligner, passage: Passage, rng: Random) -> tuple[Link, ...]:
    words = [word for word, _ in passage.words]
    places = [i for i, word in enumerate(words) if word.isalpha() and i >= QUERIES]
    links = []
    for query in sorted(rng.sample(places, min(QUERIES, len(places)))):
        target, rivals, frequent = _roles(words, query, to_the_right=not aligner.causal)
        if not target:
            continue
        links.append(
            Link(
                query=aligner.query(passage.positions[query]),
                target=_positions(passage, target),
                rivals=tuple(_positions(passage, rival) for rival in rivals),
                frequent=_positions(passage, frequent) or None,
            )
        )
    return tuple(links)


def _positions(passage: Passage, places: Sequence[int]) -> Positions:
    return tuple(sorted(p for place in places for p in passage.positions[place]))
