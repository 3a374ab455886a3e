"""Whether a head's QK circuit prefers the token before, by position alone.

For rotary positions: the rotated query–key form `q R(δ) k` of the average token with itself, at
offset −1 against all others. For learned positions: the form of the average token at one position
with itself at another. What earlier layers add to the stream is not in it, so that a head deep in a
model may well be a previous-token head in fact and none by this number.
"""

from __future__ import annotations

from typing import Any

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.circuits import Circuits, is_centred, scaled
from rolecall.analyses.models import Model

OFFSETS = 64
"""Offsets (rotary) or positions (learned) that are compared."""
FIRST_QUERY = 8
"""Earlier queries have too few keys to choose from."""


def previous_token_share(
    model: Model, layer: int, weights: Circuits, average: Float[Tensor, " d_model"]
) -> Float[Tensor, " head"] | None:
    """The attention that the average token would pay its predecessor; None if it cannot be said.

    An even head has 1 / `OFFSETS` with rotary positions. None for models with other positions than
    rotary (in halves) or learned ones.

    Args:
        model: Whose positions they are.
        layer: Which layer.
        weights: Its weights.
        average: The average token embedding, norm's scale included.
    """
    frequencies = inverse_frequencies(model)
    if frequencies is not None:
        query, key = (
            _per_head(model, layer, w, average, n) for w, n in ((weights.Q, "q"), (weights.K, "k"))
        )
        scores = rotated(query, key, frequencies, OFFSETS) / _scale(model)
        return scores.softmax(dim=-1)[:, 1]
    positions = position_rows(model)
    if positions is None:
        return None
    rows = scaled(positions + average, centred=is_centred(model))
    query = einsum(rows, weights.Q, "pos model, head model d_head -> head pos d_head")
    key = einsum(rows, weights.K, "pos model, head model d_head -> head pos d_head")
    scores = einsum(query, key, "head q d_head, head k d_head -> head q k") / _scale(model)
    if model.causal:
        hidden = torch.ones(scores.shape[-2:], device=scores.device).triu(1).bool()
        scores = scores.masked_fill(hidden, -torch.inf)
    before = scores.softmax(dim=-1).diagonal(offset=-1, dim1=-2, dim2=-1)
    return before[:, FIRST_QUERY - 1 :].mean(dim=-1) if before.shape[-1] >= FIRST_QUERY else None


def rotated(
    query: Float[Tensor, "head d_head"],
    key: Float[Tensor, "head d_head"],
    frequencies: Float[Tensor, " pair"],
    n_offsets: int,
) -> Float[Tensor, "head offset"]:
    """`q R(δ) k` for keys δ = 0, 1, 2 … to the left, rotary dimensions paired half with half.

    Dimensions beyond the rotary ones add the same to every offset.
    """
    pairs = len(frequencies)
    angle = frequencies[:, None] * torch.arange(n_offsets, device=query.device)
    first, second = (slice(0, pairs), slice(pairs, 2 * pairs))
    along = query[:, first] * key[:, first] + query[:, second] * key[:, second]
    across = query[:, first] * key[:, second] - query[:, second] * key[:, first]
    still = (query[:, 2 * pairs :] * key[:, 2 * pairs :]).sum(dim=-1, keepdim=True)
    return along @ angle.cos() + across @ angle.sin() + still


def inverse_frequencies(model: Model) -> Float[Tensor, " pair"] | None:
    """The rotary frequencies; None without, or where layers differ in them."""
    whole: Any = model.bridge.original_model
    found = [
        m.inv_freq for m in whole.modules() if isinstance(getattr(m, "inv_freq", None), Tensor)
    ]
    same = all(f.shape == found[0].shape and bool((f == found[0]).all()) for f in found)
    return found[0].float() if found and same else None


def position_rows(model: Model) -> Float[Tensor, "pos d_model"] | None:
    """The first learned position embeddings; None without."""
    table: Any = getattr(model.bridge, "pos_embed", None)
    weight = getattr(table, "weight", None)
    return weight.detach().float()[: min(OFFSETS, model.n_ctx)] if weight is not None else None


def _per_head(
    model: Model, layer: int, weight: Tensor, average: Float[Tensor, " d_model"], name: str
) -> Float[Tensor, "head d_head"]:
    """The average token's query or key, with the head's own norm where a model has one."""
    read = einsum(average, weight, "model, head model d_head -> head d_head")
    norm = getattr(model.attention(layer), f"{name}_norm", None)
    return (
        norm(read.to(model.dtype)).detach().float() if isinstance(norm, torch.nn.Module) else read
    )


def _scale(model: Model) -> float:
    config: Any = model.bridge.original_model.config
    return float(getattr(config, "query_pre_attn_scalar", None) or model.d_head) ** 0.5
