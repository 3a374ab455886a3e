"""Heads that rest on the second token: a role from somebody else's package."""

from rolecall.probes import Aligner, Crafted, Example, Link, probe, random_ids


@probe(
    family="positional",
    source="this package",
    score="mass",
    no_task="nothing depends on it",
)
def second_token(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Looks at the second token, wherever it stands.

    >>> from rolecall.probes import ids_only
    >>> second_token(ids_only(50), n=1, seed=0).examples[0].links[0].target
    (1,)
    """
    examples = []
    for i in range(n):
        ids = aligner.frame(random_ids(aligner, length=12 + i % 8, seed=seed + i))
        words = tuple((p,) for p in range(1, 12))
        links = tuple(Link(query=(q,), target=(1,), rivals=((2,), (3,))) for q in range(5, 12))
        examples.append(Example(ids, f"length {len(ids)}", words, links))
    return Crafted(tuple(examples))
