"""How strongly a later head reads what an earlier one writes: Q-, K- and V-composition.

Elhage et al. 2021: ‖W_OV¹ W_in²‖ / (‖W_OV¹‖ ‖W_in²‖) (Frobenius), where W_in² is the later head's
QK circuit from the query's or the key's side, or its OV circuit. Both circuits have rank d_head, so
an orthogonal part is taken off each and only d_head × d_model factors are multiplied. What random
matrices of these shapes score is taken off: it is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.circuits import Circuits

KINDS = ("q", "k", "v")
DRAWS = 32


@dataclass(frozen=True)
class Factors:
    """A layer's circuits, each reduced to the factor that touches the stream, norm 1.

    Attributes:
        out: Of what each head writes, `W_V W_O`.
        reads: Kind → of what each head reads through its queries, keys or values.
    """

    out: Float[Tensor, "head d_head d_model"]
    reads: dict[str, Float[Tensor, "head d_model d_head"]]


def factors(layer: Circuits) -> Factors:
    """The layer's circuits as factors, whose products have the norms of the circuits' products."""
    reads = {
        "q": layer.Q @ _triangle(layer.K).mT,
        "k": layer.K @ _triangle(layer.Q).mT,
        "v": layer.V @ _triangle(layer.O.mT).mT,
    }
    out = _triangle(layer.V) @ layer.O
    return Factors(_unit(out), {kind: _unit(read) for kind, read in reads.items()})


def _triangle(tall: Float[Tensor, "head d_model d_head"]) -> Float[Tensor, "head d_head d_head"]:
    """R of the QR decomposition: the same Gram matrix, without the orthogonal part."""
    return torch.linalg.qr(tall, mode="r").R


def _unit(matrices: Tensor) -> Tensor:
    return matrices / matrices.flatten(1).norm(dim=1).clamp_min(1e-30)[:, None, None]


def composition(
    out: Float[Tensor, "sender d_head d_model"], reads: Float[Tensor, "head d_model d_head"]
) -> Float[Tensor, "sender head"]:
    """The composition score of every earlier head with every head of a layer."""
    sent = rearrange(out, "sender a model -> (sender a) model")
    read = rearrange(reads, "head model b -> model (head b)")
    product = rearrange(
        sent @ read, "(sender a) (head b) -> sender head (a b)", a=out.shape[1], b=reads.shape[2]
    )
    return product.norm(dim=-1)


def random_composition(d_model: int, d_head: int, *, seed: int) -> float:
    """The mean score of random Gaussian circuits of these shapes."""
    draw = torch.Generator().manual_seed(seed)
    scores = []
    for _ in range(DRAWS):
        q, k, v, o = (torch.randn(1, d_model, d_head, generator=draw) for _ in range(4))
        made = factors(Circuits(q, k, v, o.mT))
        scores.append(composition(made.out, made.reads["q"]).item())
    return sum(scores) / len(scores)
