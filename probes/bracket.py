"""Bracket heads: from a closing bracket to its own opening one."""

from __future__ import annotations

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Task, probe
from rolecall.probes.choice import crafted, task
from rolecall.probes.sentences import sentences
from rolecall.probes.text import aligned


def closing(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Whether the bracket or quote that is open is closed, and not another kind.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> item = closing(aligner, n=1, seed=0).items[0]
    >>> aligner.tokenizer.decode(item.token_ids[1:])
    'They came [ with her ] ( and the sailor of the house'
    >>> aligner.tokenizer.convert_ids_to_tokens([item.answer, item.foil])
    [')', ']']
    """
    return task(aligner, "closing", crafted("bracket_task", n=n, seed=seed))


@probe(
    family="delimiter",
    source="Clark et al. 2019, arXiv 1906.04341, section 3.2 (delimiters); matching by depth "
    "is this project's own definition",
    score="mass",
    accounts=("offset", "nearest", "first"),
    task=closing,
)
def bracket(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends from a closing bracket to the bracket that it closes.

    Another opener stands nearer or farther: the brackets are nested, or in the twin in a row.

    >>> from rolecall.probes.toy import toy_aligner
    >>> aligner = toy_aligner()
    >>> example = bracket.dataset(aligner, n=1, seed=0).examples[0]
    >>> aligner.tokenizer.decode(example.token_ids[1:])
    'So the sailor ( with the camel ( of the market ) of the castle ) walked .'
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((16,), (4,), ((8,),))
    """
    return aligned(aligner, sentences(templates("bracket"), n=n, seed=seed))
