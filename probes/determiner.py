"""Determiner heads: from a noun to its determiner, and in encoders the other way."""

from __future__ import annotations

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Task, probe
from rolecall.probes.choice import crafted, task
from rolecall.probes.sentences import sentences
from rolecall.probes.text import FUTURE, aligned

SOURCE = "Clark et al. 2019, arXiv 1906.04341, section 4.2 and table 1 (det)"


def number(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Whether the noun has the number that its determiner asks for.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> item = number(aligner, n=1, seed=0).items[0]
    >>> aligner.tokenizer.decode(item.token_ids[1:])
    'The sailors have this fast'
    >>> aligner.tokenizer.convert_ids_to_tokens([item.answer, item.foil])
    ['shoe', 'shoes']
    """
    return task(aligner, "number", crafted("determiner_task", n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    task=number,
)
def determiner(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a noun to its determiner.

    Another noun's determiner stands between or before; the twin moves one of the two.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = determiner.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'They got her , as your bride says , very fast camera .'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((12,), (3,), ((6,),))
    """
    return aligned(aligner, sentences(templates("determiner"), n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    no_task="the opposite direction is only for encoders; its task is the one of determiner",
    needs_future=True,
)
def determiner_to_noun(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a determiner to its noun, to the right of it.

    >>> from rolecall.probes.toy import toy_aligner
    >>> example = determiner_to_noun.dataset(toy_aligner(causal=False), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((3,), (12,), ((7,),))
    """
    if aligner.causal:
        return Crafted((), {FUTURE: n})
    return aligned(aligner, sentences(templates("determiner"), n=n, seed=seed, opposite=True))
