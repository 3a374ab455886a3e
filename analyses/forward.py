"""Running a model: ids checked, padding masked by lengths, training mode put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from rolecall.analyses.model import Model


def run_body(
    model: Model,
    token_ids: Int[Tensor, "batch pos"],
    lengths: Int[Tensor, " batch"] | None = None,
) -> Float[Tensor, "batch pos d_model"]:
    """The hooked network's last hidden states, hooks firing on the way; no logits are computed.

    (A native TransformerLens model has no body of its own; it gives its logits.)
    """
    return _run(model, model.body(), token_ids, lengths)


def run_logits(
    model: Model,
    token_ids: Int[Tensor, "batch pos"],
    lengths: Int[Tensor, " batch"] | None = None,
) -> Float[Tensor, "batch pos d_vocab"]:
    """The hooked model's logits, hooks firing on the way.

    Raises:
        ValueError: The model has no language-model head, or the ids cannot be read.
    """
    model.require_lm_head()
    return _run(model, model.bridge.original_model, token_ids, lengths)


def run_plain(
    model: Model,
    token_ids: Int[Tensor, "batch pos"],
    lengths: Int[Tensor, " batch"] | None = None,
) -> Tensor:
    """What the plain Hugging Face module makes of the ids: logits, or last hidden states.

    Raises:
        ValueError: Only a bridge was given, or the ids cannot be read.
    """
    if model.plain is None:
        raise ValueError(f"{model.name} has no plain Hugging Face form to run")
    # Another head than a language model's (a classifier) gives nothing to compare.
    module = model.plain if model.has_lm_head else model.plain.base_model
    return _run(model, cast("nn.Module", module), token_ids, lengths)


def real_positions(lengths: Int[Tensor, " batch"], *, width: int) -> Bool[Tensor, "batch pos"]:
    """True where a token is real, for right-padded sequences of these lengths."""
    positions = torch.arange(width, device=lengths.device)
    return rearrange(positions, "pos -> 1 pos") < rearrange(lengths, "batch -> batch 1")


def require_ids(model: Model, token_ids: Int[Tensor, "batch pos"]) -> None:
    """Raises a ValueError for an id without embedding, no token at all, or too long an input."""
    if token_ids.numel() == 0:
        raise ValueError("there are no tokens to run the model on")
    low, high = (int(bound) for bound in token_ids.aminmax())
    if low < 0 or high >= model.d_vocab:
        wrong = low if low < 0 else high
        raise ValueError(f"token id {wrong} is outside the vocabulary of {model.d_vocab} ids")
    if token_ids.shape[1] > model.n_ctx:
        raise ValueError(
            f"length {token_ids.shape[1]} is past the model's context of {model.n_ctx}; "
            "use shorter inputs"
        )


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients inside; each part's training mode is put back afterwards."""
    # Flags are set one by one: `train()` would wake a part that was put to eval by itself.
    training = [part for module in modules for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


def _run(
    model: Model,
    module: nn.Module,
    token_ids: Int[Tensor, "batch pos"],
    lengths: Int[Tensor, " batch"] | None,
) -> Tensor:
    require_ids(model, token_ids)
    ids = token_ids.to(model.device)
    arguments: dict[str, Any] = {}
    if isinstance(module, PreTrainedModel) and model.causal:
        arguments["use_cache"] = False
    if lengths is not None:
        mask = real_positions(lengths.to(model.device), width=ids.shape[1])
        arguments["attention_mask"] = mask.long()
    output = module(ids, **arguments)
    if isinstance(output, Tensor):
        return output
    logits = getattr(output, "logits", None)
    return output.last_hidden_state if logits is None else logits
