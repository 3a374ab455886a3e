"""Previous-token heads: to the token one to the left."""

from __future__ import annotations

from rolecall.probes.aligner import Aligner
from rolecall.probes.base import Crafted, Task, probe
from rolecall.probes.marked_loss import marked_loss
from rolecall.probes.offsets import at_offset


def continuation(aligner: Aligner, *, n: int, seed: int) -> Task:
    """Loss on the third and later pieces of a word and on the last word of fixed expressions.

    These tokens are fixed by the two before them together ("in front" → "of"). A token fixed by
    the one before it alone would be no test: the model has that one at hand without attention.

    >>> from rolecall.probes.toy import toy_aligner
    >>> item = continuation(toy_aligner(), n=1, seed=0).items[0]
    >>> toy_aligner().tokenizer.convert_ids_to_tokens([item.token_ids[p] for p in item.positions])
    ['of']
    """
    return marked_loss(aligner, "continuation", "previous_token_task", n=n, seed=seed)


@probe(
    family="positional",
    source="Voita et al. 2019, arXiv 1905.09418, section 5.1; Clark et al. 2019, arXiv 1906.04341, "
    "section 3.1",
    score="mass",
    accounts=("nearest", "first"),
    task=continuation,
)
def previous_token(aligner: Aligner, *, n: int, seed: int) -> Crafted:
    """Attends to the token one to the left of the one it looks from.

    >>> from rolecall.probes.aligner import id_aligner
    >>> example = previous_token.dataset(id_aligner(99), n=1, seed=0).examples[0]
    >>> example.links[0].query, example.links[0].target, example.links[0].rivals
    ((8,), (7,), ((6,), (5,), (8,)))
    """
    return at_offset(aligner, -1, rivals=(-2, -3, 0), n=n, seed=seed)
