"""Whether a head's OV circuit copies: what it reads of a token raises that token's own logit.

Elhage et al. 2021: the full circuit `W_E W_V W_O W_U` is d_vocab × d_vocab, but its nonzero
eigenvalues are those of the cyclic form `W_O W_U W_E W_V`, which is d_head × d_head. Positive
eigenvalues suggest copying without proving it, so the rank of the diagonal stands beside them.
"""

from __future__ import annotations

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from rolecall.analyses.circuits import Circuits

SOURCES = 256
"""Tokens whose own logit is ranked; all of a smaller vocabulary."""
RIVALS = 8192
"""Tokens that it is ranked among; all of a smaller vocabulary."""


def eigen_positivity(
    layer: Circuits, cyclic: Float[Tensor, "d_model d_model"]
) -> Float[Tensor, " head"]:
    """Σ Re λ / Σ |λ| of each head's OV circuit: 1 copies, −1 suppresses, 0 neither.

    Args:
        layer: The layer's weights.
        cyclic: `W_U W_E`, the vocabulary summed out.
    """
    small = einsum(layer.O, cyclic, layer.V, "head a out, out model, head model b -> head a b")
    values = torch.linalg.eigvals(small.double())
    size = values.abs().sum(dim=-1)
    share = values.real.sum(dim=-1) / size.clamp_min(1e-30)
    return torch.where(size > 0, share, torch.zeros_like(share)).float()


def spread(d_vocab: int, n: int) -> Int[Tensor, " token"]:
    """About `n` token ids spread evenly over the vocabulary; all of them if there are fewer."""
    return torch.arange(d_vocab) if d_vocab <= n else torch.linspace(0, d_vocab - 1, n).long()


def diagonal_rank(
    layer: Circuits,
    embedding: Float[Tensor, "d_vocab d_model"],
    unembedding: Float[Tensor, "d_model d_vocab"],
    *,
    n_sources: int = SOURCES,
    n_rivals: int = RIVALS,
) -> Float[Tensor, " head"]:
    """The mean share of tokens whose logit a token raises less than its own: 1 copies, .5 even.

    Tokens and those they are ranked among are spread evenly over the vocabulary, so that no
    d_vocab × d_vocab matrix is held; a vocabulary up to `n_rivals` is compared as a whole.
    """
    source, rival = spread(len(embedding), n_sources), spread(len(embedding), n_rivals)
    read = einsum(
        embedding[source], layer.V, "source model, head model d_head -> head source d_head"
    )
    own = einsum(
        read, layer.O, unembedding[:, source],
        "head source d_head, head d_head model, model source -> head source",
    )  # fmt: skip
    itself = source[:, None] == rival[None]
    ranks = []
    for head in range(len(read)):  # one head at a time: source × rival numbers are held
        written = layer.O[head] @ unembedding[:, rival]
        logits = (read[head] @ written).masked_fill(itself, -torch.inf)
        above = (logits > own[head][:, None]).sum(dim=-1)
        ranks.append((1 - above / (len(rival) - itself.sum(dim=-1))).mean())
    return torch.stack(ranks)
