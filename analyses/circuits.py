"""The weights of a layer's heads as the residual stream meets them: norms folded in, GQA resolved.

A norm before attention is linear but for a positive scale: it may take off the mean, and it
multiplies by a gain. Both are folded into W_Q, W_K and W_V here. The scale is left out, and so are
biases. Query head h uses KV group h // (n_heads / n_kv_heads).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.direct import freeze
from rolecall.analyses.models import Model


@dataclass(frozen=True)
class Circuits:
    """One layer's weights, one row a query head, in float32.

    Attributes:
        Q: Stream → query.
        K: Stream → key.
        V: Stream → value.
        O: Value → stream.
    """

    Q: Float[Tensor, "head d_model d_head"]
    K: Float[Tensor, "head d_model d_head"]
    V: Float[Tensor, "head d_model d_head"]
    O: Float[Tensor, "head d_head d_model"]  # noqa: E741


def circuits(model: Model, layer: int) -> Circuits:
    """The layer's weights with the norm before its attention folded in."""
    share = model.n_heads // model.n_kv_heads
    fold = norm_map(model, _norm_before(model, layer))

    def folded(weight: Tensor) -> Tensor:
        read = einsum(
            fold,
            weight.detach().float(),
            "stream d_model, group d_model d_head -> group stream d_head",
        )
        return repeat(
            read, "group stream d_head -> (group n) stream d_head", n=model.n_heads // len(read)
        )

    out = model.W_O(layer).detach().float()
    assert share * model.n_kv_heads == model.n_heads
    return Circuits(
        folded(model.W_Q(layer)), folded(model.W_K(layer)), folded(model.W_V(layer)), out
    )


def norm_map(model: Model, norm: Any) -> Float[Tensor, "stream d_model"]:
    """What a norm does to a stream but for its scale, as `x @ map`; the identity for no norm."""
    eye = torch.eye(model.d_model, device=model.device)
    if norm is None:
        return eye
    frozen = freeze(norm, eye[:2].to(model.dtype) * model.d_model**0.5)
    if frozen is None:
        return eye
    centred = eye - eye.mean(dim=0, keepdim=True) if frozen.centred else eye
    return centred * rearrange(frozen.gain.detach().float(), "d_model -> 1 d_model")


def unembedding(model: Model) -> Float[Tensor, "d_model d_vocab"] | None:
    """Stream → logits, the final norm folded in; None where logits are more than that."""
    if not (model.has_lm_head and model.causal):
        return None
    return norm_map(model, model.final_norm()) @ model.W_U().detach().float()


def embeddings(model: Model) -> Float[Tensor, "d_vocab d_model"]:
    """Token embeddings, each scaled to a mean square of one, as a norm would.

    Rows are centred first where the norm of the first layer takes the mean off.
    """
    table: Any = model.bridge.original_model.get_input_embeddings()
    rows = table.weight.detach().float()
    return scaled(rows, centred=is_centred(model))


def is_centred(model: Model) -> bool:
    """Whether the norm before the first attention takes the mean off."""
    norm: Any = _norm_before(model, model.pattern_layers[0])
    if norm is None:
        return not model.causal
    frozen = freeze(norm, torch.eye(model.d_model)[:2].to(model.device, model.dtype))
    return frozen is not None and frozen.centred


def scaled(rows: Float[Tensor, "row d_model"], *, centred: bool) -> Float[Tensor, "row d_model"]:
    """The rows, centred if asked, with a mean square of one; rows of zeros stay."""
    rows = rows - rows.mean(dim=-1, keepdim=True) if centred else rows
    return rows / rows.square().mean(dim=-1, keepdim=True).sqrt().clamp_min(1e-8)


def _norm_before(model: Model, layer: int) -> Any:
    """The norm between the stream and the attention; None in encoders, whose norm comes after."""
    return getattr(model.bridge.blocks[layer], "ln1", None) if model.causal else None
