"""The direct effect: a head's write carried straight to the logits, everything else kept.

The final norm is linear once its scale is frozen at the clean value, so the writes of all heads,
the MLPs and the embedding add up. What other components make of the write is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from rolecall.analyses.downstream import Engine, Step
from rolecall.analyses.item_batches import Reads


@dataclass(frozen=True)
class FrozenNorm:
    """A norm as a linear map at given streams: `gain * (x - mean(x) or x) / scale`.

    Attributes:
        gain: The norm's weight, as it acts (Gemma's is 1 + weight).
        centred: The mean is taken off first (LayerNorm).
        scale: Of the streams at which it is frozen.
    """

    gain: Float[Tensor, " d_model"]
    centred: bool
    scale: Float[Tensor, "*rows 1"]

    def __call__(self, change: Tensor) -> Tensor:
        """How the normed stream changes with the stream; broadcasts over leading axes."""
        if self.centred:
            change = change - change.mean(dim=-1, keepdim=True)
        return change * self.gain / self.scale


def freeze(norm: nn.Module, at: Float[Tensor, "*rows d_model"]) -> FrozenNorm | None:
    """The norm frozen at these streams; None if it is no LayerNorm and no RMSNorm."""
    eps = next((getattr(norm, n) for n in ("eps", "variance_epsilon") if hasattr(norm, n)), 0.0)
    signs = torch.ones(at.shape[-1], device=at.device, dtype=at.dtype)
    signs[1::2] = -1.0
    plus, minus = norm(signs), norm(-signs)
    bias = (plus + minus) / 2
    # With signs of mean zero and mean square one, the norm gives gain / sqrt(1 + eps).
    unit = (signs.square().mean() - signs.mean().square() + eps).sqrt()
    gain = (plus - minus) / 2 * signs * unit
    centred = bool(torch.allclose(norm(signs + 3.0), plus, atol=1e-3, rtol=1e-3))
    flat = at.float()
    if centred:
        flat = flat - flat.mean(dim=-1, keepdim=True)
    scale = (flat.square().mean(dim=-1, keepdim=True) + eps).sqrt().to(at.dtype)
    frozen = FrozenNorm(gain, centred, scale)
    error = (frozen(at) + bias - norm(at)).float().abs().max()
    limit = 1e-3 if at.dtype == torch.float32 else 5e-2
    return frozen if float(error) <= limit * (1 + float(norm(at).float().abs().max())) else None


@dataclass(frozen=True)
class Straight:
    """How a model's heads reach its logits directly.

    Attributes:
        exact: Heads write to the residual stream as they are, and nothing but the final norm and
            the unembedding follows; where a norm stands between (Gemma-2) its scale is frozen too.
    """

    engine: Engine
    exact: bool

    def normed(
        self,
        layer: int,
        step: Step,
        z_change: Float[Tensor, "batch pos head d_head"],
        heads: Sequence[Sequence[int]],
        *,
        resid: Float[Tensor, "read d_model"],
        reads: Reads,
    ) -> Float[Tensor, "unit read d_model"] | None:
        """The normed last stream with the units' writes changed and all else kept.

        None where a norm in between is of a kind that cannot be frozen.
        """
        at = z_change[reads.row, reads.pos]
        at = rearrange(at, "read head d_head -> read 1 head d_head")
        moved = rearrange(self.engine.change(layer, at, heads), "u read 1 d -> u read d")
        between = after_attention(self.engine, layer)
        if between is not None:
            own = freeze(between, step.attn_out[reads.row, reads.pos])
            if own is None:
                return None
            moved = own(moved)
        norm = self.engine.tail.norm
        assert norm is not None
        frozen = freeze(norm, resid)
        return None if frozen is None else norm(resid) + frozen(moved)


def after_attention(engine: Engine, layer: int) -> nn.Module | None:
    """The norm between a layer's attention output and the residual stream, or None."""
    if not engine.model.post_norm:
        return None
    # Only where another norm stands before the MLP is this one applied to attention's output.
    block: Any = engine.parts.blocks[layer]
    if not hasattr(block, "post_feedforward_layernorm"):
        return None
    return getattr(block, "post_attention_layernorm", None)


def straight(engine: Engine) -> Straight | None:
    """How heads reach the logits directly; None where there is no straight way (BERT).

    An encoder norms the sum after each block, so that a write is rescaled all the way.
    """
    if engine.tail.norm is None or not engine.model.causal:
        return None
    return Straight(engine, exact=not engine.model.post_norm)
