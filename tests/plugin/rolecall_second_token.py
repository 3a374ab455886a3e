"""Heads that rest on the second token: a role from somebody else's package."""

from random import Random

from rolecall.probes import Aligner, Crafted, Example, Link, distinct_ids, probe


@probe(family="positional", source="this package", score="mass", no_task="nothing rests on it")
def second_token(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Looks at the second token, wherever it stands.

    >>> from rolecall.probes import id_aligner
    >>> second_token(id_aligner(50), n=1, seed=0).examples[0].links[0].target
    (1,)
    """
    rng = Random(seed)
    examples = []
    for i in range(n):
        ids = aligner.frame(distinct_ids(aligner, 12 + i % 8, rng))
        words = tuple((p,) for p in range(1, 12))
        links = tuple(Link(query=(q,), target=(1,), rivals=((2,), (3,))) for q in range(5, 12))
        examples.append(Example(ids, f"length {len(ids)}", words, links))
    return Crafted(tuple(examples))
