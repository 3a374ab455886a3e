"""Subject-verb heads: from a verb to its subject, and in encoders the other way."""

from __future__ import annotations

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Task, probe
from rolecall.probes.choice import crafted, task
from rolecall.probes.sentences import sentences
from rolecall.probes.text import FUTURE, aligned

SOURCE = (
    "Voita et al. 2019, arXiv 1905.09418, section 5.2 and table 1 (nsubj); Clark et al. "
    "2019, arXiv 1906.04341, section 4.2"
)


def agreement(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Whether the verb agrees with its subject rather than with the noun nearest to it.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> item = agreement(aligner, n=1, seed=0).items[0]
    >>> aligner.tokenizer.decode(item.token_ids[1:])
    'The sailor near the camels'
    >>> aligner.tokenizer.convert_ids_to_tokens([item.answer, item.foil])
    ['is', 'are']
    """
    return task(aligner, "agreement", crafted("subject_verb_task", n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    task=agreement,
)
def subject_verb(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a verb to the noun that is its subject.

    Another noun stands between or before; in the twin that noun is the subject.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = subject_verb.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'Now the sailor near the camel carries him here .'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((7,), (3,), ((6,),))
    """
    return aligned(aligner, sentences(templates("subject_verb"), n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    no_task="the opposite direction is only for encoders; its task is the one of subject_verb",
    needs_future=True,
)
def subject_to_verb(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a subject noun to its verb, to the right of it.

    >>> from rolecall.probes.toy import toy_aligner
    >>> example = subject_to_verb.dataset(toy_aligner(causal=False), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((3,), (7,), ((6,),))
    """
    if aligner.causal:
        return Crafted((), {FUTURE: n})
    return aligned(aligner, sentences(templates("subject_verb"), n=n, seed=seed, opposite=True))
