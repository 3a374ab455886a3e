"""A CoNLL-U treebank as roles: every relation, in both directions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import conllu
from conllu.exceptions import ParseException
from conllu.parser import DEFAULT_FIELDS

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Probe
from rolecall.probes.text import FUTURE, Span, TextExample, TextLink, aligned

# The reader's own classes are typed in a way that checks at run time refuse.
Row = Mapping[str, Any]

SHORTEST = 3
BINS = ((3, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 30), (31, 40), (41, 10_000))
"""Sentence lengths in words; together with the relation's direction they are the templates."""


@dataclass(frozen=True)
class Arc:
    """A dependency: 1-based word numbers; `relation` without its subtype."""

    dependent: int
    head: int
    relation: str


@dataclass(frozen=True)
class Sentence:
    """A sentence as text.

    Attributes:
        text: Rebuilt from the words and `SpaceAfter`, so that spans are sure.
        spans: Each word's characters; words of a contraction share the contraction's.
        arcs: All dependencies but the root's.
    """

    text: str
    spans: tuple[Span, ...]
    arcs: tuple[Arc, ...]


def require_treebank(path: Path) -> None:
    """Nothing, if there is a file to read as a treebank.

    Raises:
        ValueError: There is none.
    """
    if not path.is_file():
        raise ValueError(f"there is no treebank at {path}; name a .conllu file")


def sentences(path: str | Path) -> tuple[Sentence, ...]:
    """The sentences of a CoNLL-U file.

    Range lines (`2-3 don't`) give the text and decimal lines (`4.1`) nothing; heads are 1-based
    and 0 is the root, which has no arc.

    Raises:
        ValueError: The file cannot be read or is not CoNLL-U.
    """
    file = Path(path)
    try:
        rows = conllu.parse(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, ParseException) as error:
        raise ValueError(f"{file} cannot be read as CoNLL-U: {error}") from None
    found = tuple(_sentence(file, row) for row in rows)
    if not any(sentence.arcs for sentence in found):
        raise ValueError(f"{file} has no dependency in it; columns 7 and 8 of CoNLL-U hold them")
    return found


def _sentence(file: Path, row: Sequence[Row]) -> Sentence:
    for token in row:
        if len(token) < len(DEFAULT_FIELDS):
            raise ValueError(
                f"{file}: word {token.get('id')} ({token.get('form')}) has {len(token)} columns; "
                f"a word of CoNLL-U has {len(DEFAULT_FIELDS)}"
            )
    numbered = [token for token in row if isinstance(token["id"], int)]
    shared = {
        number: token
        for token in row
        if isinstance(token["id"], tuple) and token["id"][1] == "-"
        for number in range(token["id"][0], token["id"][2] + 1)
    }
    text, spans = "", []
    for token in numbered:
        surface = shared.get(token["id"], token)
        if surface is token or surface["id"][0] == token["id"]:
            spans.append((len(text), len(text) + len(surface["form"])))
            text += surface["form"] + ("" if _glued(surface) else " ")
        else:
            spans.append(spans[-1])
    arcs = tuple(_arcs(file, numbered))
    return Sentence(text.rstrip(), tuple(spans), arcs)


def _glued(token: Row) -> bool:
    return (token.get("misc") or {}).get("SpaceAfter") == "No"


def _arcs(file: Path, tokens: Sequence[Row]) -> Iterator[Arc]:
    for place, token in enumerate(tokens, start=1):
        if token["id"] != place:
            raise ValueError(f"{file}: word {token['id']} stands where word {place} should be")
        head, relation = token["head"], token["deprel"]
        if head is None or relation is None or head == 0:
            continue
        if not 0 < head <= len(tokens):
            raise ValueError(f"{file}: word {place} has head {head} of {len(tokens)} words")
        yield Arc(place, head, relation.partition(":")[0])


def treebank_probes(path: str | Path, *, fewest: int = 20) -> tuple[Probe, ...]:
    """Two roles for each relation of a treebank: `nsubj` and `nsubj_of`.

    The first goes from the dependent to its head, the second from the head to its dependents. A
    sentence is one example; what a decoder cannot see is counted. Rivals are the words that stand
    right and left of the target.

    Args:
        path: A CoNLL-U file.
        fewest: Relations with fewer arcs are left out.

    Raises:
        ValueError: The file cannot be read, is not CoNLL-U, or no relation is frequent enough.
    """
    file = Path(path)
    found = sentences(file)
    count = Counter(arc.relation for sentence in found for arc in sentence.arcs)
    kept = sorted(relation for relation, arcs in count.items() if arcs >= fewest)
    if not kept:
        raise ValueError(
            f"{file}: no relation has {fewest} arcs; lower the number or add sentences"
        )
    return tuple(_probe(file, found, relation, back) for relation in kept for back in (False, True))


def _probe(file: Path, found: tuple[Sentence, ...], relation: str, back: bool) -> Probe:
    examples = [e for e in (_example(s, relation, back) for s in found) if e is not None]

    def dataset(aligner: Aligner, *, n: int, seed: int) -> Crafted:
        """Attends along one relation of the treebank."""
        kept = [_seen(e) for e in examples] if aligner.causal else examples
        usable = [e for e in kept if e.links]
        chosen = usable if n >= len(usable) else Random(seed).sample(usable, n)
        crafted = aligned(aligner, chosen)
        hidden = sum(len(e.links) for e in examples) - sum(len(e.links) for e in kept)
        return Crafted(
            crafted.examples, {**crafted.dropped, **({FUTURE: hidden} if hidden else {})}
        )

    way = "its dependents" if back else "its head"
    return Probe(
        name=f"{relation}_of" if back else relation,
        family="treebank",
        definition=f"Attends from a word to {way} by the relation {relation} in {file.name}.",
        source=f"Universal Dependencies, {file.name}",
        dataset=dataset,
        score_kind="hit",
        accounts=("offset", "nearest", "first", "same_word"),
        no_task="a treebank says what belongs together, not what a model should say next",
    )


def _example(sentence: Sentence, relation: str, back: bool) -> TextExample | None:
    if len(sentence.spans) < SHORTEST:
        return None
    targets: dict[Span, list[Span]] = defaultdict(list)
    for arc in sentence.arcs:
        if arc.relation == relation:
            dependent, head = (sentence.spans[i - 1] for i in (arc.dependent, arc.head))
            query, target = (head, dependent) if back else (dependent, head)
            # Words of one contraction share their letters and cannot be told apart.
            if query != target:
                targets[query].append(target)
    links = tuple(
        TextLink(query, tuple(target), _beside(sentence, query, target))
        for query, target in sorted(targets.items())
    )
    if not links:
        return None
    low, high = next(b for b in BINS if b[0] <= len(sentence.spans) <= b[1])
    return TextExample(sentence.text, f"{low} to {high} words", links)


def _beside(sentence: Sentence, query: Span, target: list[Span]) -> tuple[tuple[Span, ...], ...]:
    """The words next to the target, where they are neither the query nor a target."""
    spans = list(dict.fromkeys(sentence.spans))
    near = {spans.index(span) + step for span in target for step in (-1, 1)}
    rivals = (spans[i] for i in sorted(near) if 0 <= i < len(spans))
    return tuple((span,) for span in rivals if span != query and span not in target)


def _seen(example: TextExample) -> TextExample:
    """The example with the links that a decoder can see."""
    links = tuple(link for link in example.links if max(link.target) < link.query)
    return TextExample(example.text, example.template, links)
