"""Coreference: from a pronoun to who is meant, in encoders back; a name to its earlier mention.

Two roles: the second a head on the same word does for nothing (the nearest mention with the same
head word is right for 67 of 100 proper names, Clark et al. 2019, table 2), so that what is called
coreference is held against pronouns alone.
"""

from __future__ import annotations

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Task, probe
from rolecall.probes.choice import crafted, task
from rolecall.probes.sentences import sentences
from rolecall.probes.text import FUTURE, aligned

SOURCE = "Clark et al. 2019, arXiv 1906.04341, section 4.3 and table 2"


def antecedent(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Whether behind a pronoun comes the name it stands for, not the other one.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> item = antecedent(aligner, n=1, seed=0).items[0]
    >>> aligner.tokenizer.decode(item.token_ids[1:])
    'Susan forgot Steven . If he'
    >>> aligner.tokenizer.convert_ids_to_tokens([item.answer, item.foil])
    ['Steven', 'Susan']
    """
    return task(aligner, "antecedent", crafted("coreference_task", n=n, seed=seed))


def pronoun(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Whether the pronoun to come has the gender of the one it stands for.

    It is asked before the pronoun is there, where no head can look from it.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> item = pronoun(aligner, n=1, seed=0).items[0]
    >>> aligner.tokenizer.decode(item.token_ids[1:])
    'Steven sang because'
    >>> aligner.tokenizer.convert_ids_to_tokens([item.answer, item.foil])
    ['he', 'she']
    """
    return task(aligner, "pronoun", crafted("pronoun_task", n=n, seed=seed))


@probe(
    family="coreference",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "same_word", "frequency"),
    task=antecedent,
    also=(pronoun,),
)
def coreference(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a pronoun to its antecedent.

    Another person stands beside; in the twin the two have changed places.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = coreference.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'Then Steven forgot Susan before he swam .'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((6,), (2,), ((4,),))
    """
    return aligned(aligner, sentences(templates("coreference"), n=n, seed=seed))


@probe(
    family="coreference",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "same_word", "frequency"),
    no_task="what a word said again can tell is asked by duplicate_token",
)
def earlier_mention(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a name to its earlier mention, which a head on the same word does as well.

    Another person stands beside; in the twin the two have changed places. The simpler account is
    always right here, so no head has a label of it: the score says whether a head follows names.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = earlier_mention.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'Now Steven and Susan were here . Then Steven sang .'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((9,), (2,), ((4,),))
    """
    return aligned(aligner, sentences(templates("earlier_mention"), n=n, seed=seed))


@probe(
    family="coreference",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "same_word", "frequency"),
    no_task="the opposite direction is only for encoders; its task is the one of coreference",
    needs_future=True,
)
def antecedent_to_pronoun(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from an antecedent to the pronoun that stands for it, to the right of it.

    >>> from rolecall.probes.toy import toy_aligner
    >>> example = antecedent_to_pronoun.dataset(toy_aligner(causal=False), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((2,), (6,), ((4,),))
    """
    if aligner.causal:
        return Crafted((), {FUTURE: n})
    return aligned(aligner, sentences(templates("coreference"), n=n, seed=seed, opposite=True))
