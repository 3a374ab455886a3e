"""Auxiliary heads: from a verb to its auxiliary, and in encoders the other way."""

from __future__ import annotations

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Task, probe
from rolecall.probes.choice import crafted, task
from rolecall.probes.sentences import sentences
from rolecall.probes.text import FUTURE, aligned

SOURCE = "Clark et al. 2019, arXiv 1906.04341, section 4.2 and table 1 (aux, auxpass)"


def verb_form(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Whether the verb has the form that its auxiliary asks for: participle or base.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> item = verb_form(aligner, n=1, seed=0).items[0]
    >>> aligner.tokenizer.decode(item.token_ids[1:])
    'The sailor that will come has'
    >>> aligner.tokenizer.convert_ids_to_tokens([item.answer, item.foil])
    ['visited', 'visit']
    """
    return task(aligner, "verb_form", crafted("auxiliary_task", n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    task=verb_form,
)
def auxiliary(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a verb to its auxiliary.

    Another verb's auxiliary stands between or before; the twin moves one of the two.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = auxiliary.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'When would the bride who has traveled then carry it ?'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((9,), (2,), ((6,),))
    """
    return aligned(aligner, sentences(templates("auxiliary"), n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    no_task="the opposite direction is only for encoders; its task is the one of auxiliary",
    needs_future=True,
)
def auxiliary_to_verb(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from an auxiliary to its verb, to the right of it.

    >>> from rolecall.probes.toy import toy_aligner
    >>> example = auxiliary_to_verb.dataset(toy_aligner(causal=False), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((2,), (9,), ((7,),))
    """
    if aligner.causal:
        return Crafted((), {FUTURE: n})
    return aligned(aligner, sentences(templates("auxiliary"), n=n, seed=seed, opposite=True))
