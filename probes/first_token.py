"""First-token heads, or sinks: to the first position, whatever stands there."""

from __future__ import annotations

from collections import Counter
from random import Random

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Example, Link, probe
from rolecall.probes.offsets import FIRST_QUERY, LINKS, sequences


@probe(
    family="positional",
    source="Vig and Belinkov 2019, arXiv 1906.04284 (null attention); Xiao et al. 2023, arXiv "
    "2309.17453; Gu et al. 2024, arXiv 2410.10781 (the sink metric)",
    score="mass",
    accounts=("offset",),
    no_task="resting on the first token is what a head does when it has nothing to do",
)
def first_token(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends to the first position of the input, be it a special token or a word.

    >>> from rolecall.probes.aligner import id_aligner
    >>> example = first_token.dataset(id_aligner(99, bos=0), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((9,), (0,), ((9,), (8,), (4,)))
    """
    dropped: Counter[str] = Counter()
    rng = Random(seed)
    examples = []
    for template, ids, words in sequences(aligner, n=n, seed=seed, dropped=dropped):
        last = len(ids) - 1 - (aligner.eos is not None)
        queries = range(min(aligner.start + FIRST_QUERY, last), last + 1)
        chosen = sorted(rng.sample(queries, min(LINKS, len(queries))))
        links = tuple(Link((q,), (0,), ((q,), (q - 1,), (q // 2,))) for q in chosen)
        examples.append(Example(ids, template, words, links))
    return Crafted(tuple(examples), dict(dropped))
