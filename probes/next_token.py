"""Next-token heads: to the token one to the right, which only an encoder can see."""

from __future__ import annotations

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, probe
from rolecall.probes.offsets import at_offset


@probe(
    family="positional",
    source="Clark et al. 2019, arXiv 1906.04341, section 3.1; Voita et al. 2019, arXiv 1905.09418, "
    "section 5.1",
    score="mass",
    accounts=("nearest", "first"),
    no_task="only encoders have such heads, and an encoder predicts no next token",
    needs_future=True,
)
def next_token(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends to the token one to the right of the one it looks from.

    >>> from rolecall.probes.aligner import id_aligner
    >>> example = next_token.dataset(id_aligner(99, causal=False), n=1, seed=4).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((8,), (9,), ((10,), (7,), (8,), (11,)))
    """
    return at_offset(aligner, 1, rivals=(2, -1, 0, 3), n=n, seed=seed)
