"""Templates filled: words drawn for the slots, one group each, and where the marks then stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from rolecall.data.lexicon import GROUPS, Word, words
from rolecall.data.templates import Template
from rolecall.probes.frequency import rarest
from rolecall.probes.text import Span, TextExample, TextLink

SLOT = re.compile(r"\{([^{}|]+)(?:\|([^{}]*))?\}")
LABELS = ("query", "target", "rival", "back")


@dataclass(frozen=True)
class Pronoun:
    """The pronouns of one gender."""

    subject: str
    object: str
    possessive: str
    reflexive: str


PRONOUNS = {
    "f": Pronoun("she", "her", "her", "herself"),
    "m": Pronoun("he", "him", "his", "himself"),
}


@dataclass(frozen=True)
class Filled:
    """A filled sentence.

    Attributes:
        text: The sentence.
        marks: Label → the spans that carry it, in reading order.
    """

    text: str
    marks: Mapping[str, tuple[Span, ...]]


def fill(sentence: str, drawn: Mapping[str, Any]) -> Filled:
    """The sentence with its slots filled, and where the marked words stand.

    Example:
        >>> from rolecall.data.lexicon import Word
        >>> fill("The {a.word|rival} one {is|target}.", {"a": Word("old")})
        Filled(text='The old one is.', marks={'rival': ((4, 7),), 'target': ((12, 14),)})
    """
    parts: list[str] = []
    marks: dict[str, tuple[Span, ...]] = {}
    done = length = 0
    for match in SLOT.finditer(sentence):
        literal = sentence[done : match.start()]
        word = _word(match[1], drawn)
        start = length + len(literal)
        for label in (match[2] or "").split():
            marks[label] = (*marks.get(label, ()), (start, start + len(word)))
        parts += [literal, word]
        length, done = start + len(word), match.end()
    return Filled("".join(parts) + sentence[done:], marks)


def _word(field: str, drawn: Mapping[str, Any]) -> str:
    slot, _, form = field.partition(".")
    return getattr(drawn[slot], form) if form and slot in drawn else field


def draw(slots: Mapping[str, str], rng: Random) -> dict[str, Any]:
    """An entry for each slot, no two content words from the same group of the lexicon.

    A slot asks for a list and a kind or gender: `nouns person`, `verbs transitive`, `names x`; or
    for `one of` the function words that follow, none of which is drawn twice.
    Genders `x` and `y` are the two genders in an order drawn once a sentence.

    Example:
        >>> drawn = draw({"a": "names x", "b": "names y", "p": "pronouns x"}, Random(1))
        >>> drawn["a"].gender != drawn["b"].gender
        True
    """
    genders = dict(zip("xy", rng.choice(("fm", "mf")), strict=True))
    groups = iter(rng.sample(range(GROUPS), GROUPS))
    drawn: dict[str, Any] = {}
    for slot, wanted in slots.items():
        file, *asked = wanted.split()
        if file == "pronouns":
            drawn[slot] = PRONOUNS[genders[asked[0]]]
            continue
        if file == "one":
            taken = {word.word for word in drawn.values() if isinstance(word, Word)}
            drawn[slot] = Word(rng.choice([word for word in asked[1:] if word not in taken]))
            continue
        fields = dict(_field(value, genders) for value in asked)
        drawn[slot] = rng.choice(words(file, next(groups), **fields))
    return drawn


def _field(value: str, genders: Mapping[str, str]) -> tuple[str, str]:
    if value in genders:
        return "gender", genders[value]
    return "kind", value


def sentences(
    templates: Sequence[Template], *, n: int, seed: int, opposite: bool = False
) -> tuple[TextExample, ...]:
    """About n filled sentences with their twins, templates in turn.

    Every other example of a template has text and twin exchanged, so an account that is right on
    the one is wrong on the other and no simple rule is right on most.

    Args:
        templates: Where the sentences come from.
        n: How many.
        seed: Fixes the words.
        opposite: Turn every link round, from the target to the query; its rivals are then the
            words marked `back`.
    """
    rng = Random(seed)
    found = []
    for number in range(n):
        template = templates[number % len(templates)]
        drawn = draw(template.slots, rng)
        both = (fill(sentence, drawn) for sentence in (template.text, template.twin))
        text, twin = (_example(filled, template.id, opposite) for filled in both)
        if number // len(templates) % 2:
            text, twin = twin, text
        found.append(replace(text, twin=twin))
    return tuple(found)


def _example(filled: Filled, template: str, opposite: bool) -> TextExample:
    marks = {label: filled.marks.get(label, ()) for label in LABELS}
    if opposite:
        # Where nothing competes with the query, the words that compete with the target do.
        turned = {"query": marks["target"], "target": marks["query"]}
        marks = {**turned, "rival": marks["back"] or marks["rival"]}
    rivals = tuple((span,) for span in marks["rival"])
    rare = _rarest(filled.text, (*marks["target"], *marks["rival"]))
    links = tuple(TextLink(span, marks["target"], rivals, rare) for span in marks["query"])
    return TextExample(filled.text, template, links)


def _rarest(text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """Where a head on rare words would look: the least frequent of the candidates."""
    words = [text[start:end] for start, end in spans]
    if not words or not all(word.isalpha() for word in words):
        return ()
    return (spans[rarest(words)],)
