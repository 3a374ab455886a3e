"""From the last residual stream to logits: the final norm, the unembedding and its cap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from rolecall.analyses.anatomy import Anatomy, first, replaced, watched
from rolecall.analyses.models import Model


@dataclass(frozen=True)
class Tail:
    """What follows the last block.

    Attributes:
        parts: The model it belongs to.
        norm: The final norm, or None.
        weight: Unembedding rows, [d_vocab d_model], where logits are a (capped) linear function of
            the normed stream; None where the head does more.
        bias: Of the unembedding, or None.
        cap: Soft-cap of the logits, or None.
    """

    parts: Anatomy
    norm: nn.Module | None
    weight: Float[Tensor, "d_vocab d_model"] | None
    bias: Float[Tensor, " d_vocab"] | None
    cap: float | None

    def normed(self, resid: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """The stream as the unembedding reads it."""
        return resid if self.norm is None else self.norm(resid)

    def logits(self, normed: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_vocab"]:
        """Float32 logits of normed streams."""
        if self.weight is not None:
            return self.capped(torch.nn.functional.linear(normed, self.weight, self.bias).float())
        flat = normed.reshape(1, -1, normed.shape[-1])
        ids = torch.zeros(flat.shape[:2], dtype=torch.long, device=flat.device)
        body = lambda *_, **__: BaseModelOutput(last_hidden_state=flat)  # noqa: E731
        with replaced(self.parts.body, body):
            whole: Any = self.parts.whole
            logits = whole(input_ids=ids).logits
        return logits.float().reshape(*normed.shape[:-1], -1)

    def difference(
        self,
        normed: Float[Tensor, "unit read d_model"],
        answer: Int[Tensor, " read"],
        foil: Int[Tensor, " read"],
    ) -> Float[Tensor, "unit read"]:
        """Logit of the answer minus that of the foil, without computing the others."""
        if self.weight is None:
            logits = self.logits(normed)
            return _pick(logits, answer) - _pick(logits, foil)
        return self._column(normed, answer) - self._column(normed, foil)

    def _column(self, normed: Tensor, ids: Tensor) -> Tensor:
        assert self.weight is not None
        logit = torch.einsum("urd,rd->ur", normed.float(), self.weight[ids].float())
        return self.capped(logit if self.bias is None else logit + self.bias[ids].float())

    def capped(self, logits: Tensor) -> Tensor:
        """Soft-capped, where the model does that."""
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


def _pick(logits: Tensor, ids: Tensor) -> Tensor:
    index = rearrange(ids, "read -> 1 read 1").expand(logits.shape[0], -1, 1)
    return rearrange(logits.gather(-1, index), "unit read 1 -> unit read")


def find_tail(model: Model, parts: Anatomy) -> Tail:
    """The model's tail, proved against its own logits on a few tokens.

    Raises:
        ValueError: The model has no language-model head, or its last hidden states are not the
            last block's output, normed.
    """
    model.require_lm_head()
    ids = torch.arange(min(4, model.d_vocab), device=model.device)[None]
    kept: dict[str, Tensor] = {}
    last = parts.blocks[-1]
    watch = {
        last: lambda _m, _i, output: kept.update(resid=first(output)),
        parts.body: lambda _m, _i, output: kept.update(hidden=first(output)),
    }
    whole: Any = parts.whole
    with watched(after=watch):
        logits = whole(input_ids=ids, **no_cache(model)).logits.float()
    norm = _norm(parts, kept["resid"], kept["hidden"], model)
    head = whole.get_output_embeddings()
    if isinstance(head, nn.Linear):
        tail = Tail(parts, norm, head.weight, head.bias, model.softcap)
        if _close(tail.logits(kept["hidden"]), logits):
            return tail
    return Tail(parts, norm, None, None, None)


def no_cache(model: Model) -> dict[str, Any]:
    """Keyword arguments that keep a decoder from filling a cache; encoders know none."""
    return {"use_cache": False} if model.causal else {}


def _norm(parts: Anatomy, resid: Tensor, hidden: Tensor, model: Model) -> nn.Module | None:
    if _close(resid, hidden):
        return None
    inside = {part for block in parts.blocks for part in block.modules()}
    for module in parts.body.modules():
        norm = "Norm" in type(module).__name__ and module not in inside
        if norm and _close(module(resid), hidden):
            return module
    raise ValueError(f"{model.name}: no final norm between the last block and the logits")


def _close(one: Tensor, other: Tensor) -> bool:
    limit = 1e-4 if one.dtype == torch.float32 == other.dtype else 2e-2
    scale = float(other.abs().max().float()) + 1.0
    return one.shape == other.shape and float((one - other).abs().max().float()) < limit * scale
