"""Adjective heads: from a noun to its adjective, and in encoders the other way."""

from __future__ import annotations

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, probe
from rolecall.probes.sentences import sentences
from rolecall.probes.text import FUTURE, aligned

SOURCE = (
    "Voita et al. 2019, arXiv 1905.09418, section 5.2 and table 1 (amod); Clark et al. "
    "2019, arXiv 1906.04341, section 4.2"
)


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    no_task="English adjectives have one form, so no next word depends on one alone",
)
def adjective(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a noun to the adjective that modifies it.

    Another noun's adjective stands between or before; the twin moves one of the two.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = adjective.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'There was the fast , as the lazy sailor said , shoe .'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((12,), (4,), ((8,),))
    """
    return aligned(aligner, sentences(templates("adjective"), n=n, seed=seed))


@probe(
    family="syntactic",
    source=SOURCE,
    score="hit",
    accounts=("offset", "nearest", "first", "frequency"),
    no_task="the opposite direction is only for encoders; its task is the one of adjective",
    needs_future=True,
)
def adjective_to_noun(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from an adjective to the noun it modifies, to the right of it.

    >>> from rolecall.probes.toy import toy_aligner
    >>> example = adjective_to_noun.dataset(toy_aligner(causal=False), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((4,), (12,), ((9,),))
    """
    if aligner.causal:
        return Crafted((), {FUTURE: n})
    return aligned(aligner, sentences(templates("adjective"), n=n, seed=seed, opposite=True))
