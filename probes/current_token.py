"""Current-token heads: to the query itself."""

from __future__ import annotations

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, probe
from rolecall.probes.offsets import at_offset


@probe(
    family="positional",
    source="Clark et al. 2019, arXiv 1906.04341, section 3.1 (attention to the current token)",
    score="mass",
    accounts=("first",),
    no_task="looking at itself gives a head nothing that the residual stream does not hold already",
)
def current_token(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends to the token it looks from.

    >>> from rolecall.probes.aligner import id_aligner
    >>> example = current_token.dataset(id_aligner(99), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((8,), (8,), ((7,), (6,), (5,)))
    """
    return at_offset(aligner, 0, rivals=(-1, -2, -3, 1), n=n, seed=seed)
