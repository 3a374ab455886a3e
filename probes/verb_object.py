"""Verb-object heads: from a direct object to its verb, and in encoders the other way."""

from __future__ import annotations

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Task, probe
from rolecall.probes.choice import crafted, task
from rolecall.probes.sentences import sentences
from rolecall.probes.text import FUTURE, aligned

SOURCE = "Clark et al. 2019, arXiv 1906.04341, section 4.2 and table 1 (dobj)"


def selection(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Which noun was the object of the verb that comes again; in the twin it was the other noun.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> item = selection(aligner, n=1, seed=0).items[0]
    >>> aligner.tokenizer.decode(item.token_ids[1:])
    'He forgot the map and loved the shoe . What he forgot was the'
    >>> aligner.tokenizer.convert_ids_to_tokens([item.answer, item.foil])
    ['map', 'shoe']
    """
    return task(aligner, "selection", crafted("verb_object_task", n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    task=selection,
)
def verb_object(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a direct object to the verb that governs it.

    Another verb, without an object, stands between or before; the twin exchanges their places.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = verb_object.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'So he forgot , as the sailor loved it , the shoe .'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((12,), (3,), ((8,),))
    """
    return aligned(aligner, sentences(templates("verb_object"), n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    no_task="the opposite direction is only for encoders; its task is the one of verb_object",
    needs_future=True,
)
def verb_to_object(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a verb to its direct object, to the right of it.

    >>> from rolecall.probes.toy import toy_aligner
    >>> example = verb_to_object.dataset(toy_aligner(causal=False), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((3,), (12,), ((7,),))
    """
    if aligner.causal:
        return Crafted((), {FUTURE: n})
    return aligned(aligner, sentences(templates("verb_object"), n=n, seed=seed, opposite=True))
