"""What an item scores: a logit difference or a loss, and how far all logits moved (KL)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.item_batches import Reads
from rolecall.analyses.tail import Tail

LOGITS_AT_ONCE = 2**23
"""Logits that are held at the same time (32 MB in float32)."""


@dataclass(frozen=True)
class Scored:
    """What a batch of items scores under each unit.

    Attributes:
        metric: The task's metric.
        kl: KL(clean ‖ ablated) of the next-token distributions, in nats; None if not asked for.
    """

    metric: Float[Tensor, "unit batch"]
    kl: Float[Tensor, "unit batch"] | None


def score(
    tail: Tail,
    normed: Float[Tensor, "unit read d_model"],
    reads: Reads,
    *,
    clean: Float[Tensor, "read d_model"] | None = None,
) -> Scored:
    """Each item's metric, and its KL from the `clean` normed streams if those are given.

    The full logits are computed only for a loss or a KL, a part of the reads at a time.
    """
    difference = None
    if reads.foil is not None:
        difference = tail.difference(normed, reads.answer, reads.foil)
        if clean is None:
            return Scored(reads.per_item(difference), None)
    losses, kls = _over_vocabulary(tail, normed, reads, clean)
    values = losses if difference is None else difference
    return Scored(reads.per_item(values), None if kls is None else reads.per_item(kls))


def _over_vocabulary(
    tail: Tail, normed: Tensor, reads: Reads, clean: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    whole = cast("Any", tail.parts.whole)
    width = whole.config.vocab_size if tail.weight is None else tail.weight.shape[0]
    step = max(1, LOGITS_AT_ONCE // (int(width) * normed.shape[0]))
    losses, kls = [], []
    for start in range(0, normed.shape[1], step):
        part = slice(start, start + step)
        logits = tail.logits(normed[:, part])
        total = torch.logsumexp(logits, dim=-1)
        index = rearrange(reads.answer[part], "read -> 1 read 1").expand(len(logits), -1, 1)
        losses.append(total - rearrange(logits.gather(-1, index), "unit read 1 -> unit read"))
        if clean is not None:
            kls.append(_kl(tail.logits(clean[part]), logits, total))
    return torch.cat(losses, dim=1), torch.cat(kls, dim=1) if kls else None


def _kl(
    clean: Float[Tensor, "read d_vocab"],
    logits: Float[Tensor, "unit read d_vocab"],
    total: Float[Tensor, "unit read"],
) -> Float[Tensor, "unit read"]:
    log_p = torch.log_softmax(clean, dim=-1)
    p = log_p.exp()
    cross = torch.einsum("rv,urv->ur", p, logits)
    # Rounding can leave a distance from itself a hair below zero.
    return ((p * log_p).sum(dim=-1) - cross + total).clamp_min(0.0)


def worsening(metric: str, clean: Tensor, changed: Tensor) -> Tensor:
    """How much worse than `clean`: the drop of a logit difference, the rise of a loss."""
    return clean - changed if metric == "logit_difference" else changed - clean
