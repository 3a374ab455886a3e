"""What a head's write says to the logits directly: the tokens it raises and lowers most."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from rolecall.analyses.evidence import Head
from rolecall.analyses.models import Model

TOKENS = 8


def top_tokens(
    model: Model, z: Float[Tensor, " d_head"], head: Head
) -> tuple[list[str], list[str]]:
    """The tokens that the head's write raises and lowers most, through W_O and the unembedding.

    The write is scaled by the final norm's weight and nothing between is run: what the head says
    to the logits directly. Nothing for a model without logits.
    """
    if not model.has_lm_head:
        return [], []
    layer, number = head
    w_o = model.W_O(layer)[number].float()
    with torch.no_grad():
        write = einsum(z.to(w_o.device), w_o, "d_head, d_head d_model -> d_model")
        weight = getattr(model.final_norm(), "weight", None)
        if weight is not None:
            write = write * weight.float()
        logits = einsum(write, model.W_U().float(), "d_model, d_model d_vocab -> d_vocab")
    order = torch.argsort(logits, descending=True).tolist()
    names = token_texts(model, [*order[:TOKENS], *order[-TOKENS:][::-1]])
    return names[:TOKENS], names[TOKENS:]


def token_texts(model: Model, token_ids: Sequence[int]) -> list[str]:
    """Each token as a reader sees it, with its leading blank; its number where there is no text."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        return [str(token) for token in token_ids]
    joins = "##s" in tokenizer.get_vocab()  # word pieces: all but the marked ones begin a word
    texts = []
    for token in token_ids:
        piece = str(tokenizer.convert_ids_to_tokens(int(token)))
        text = tokenizer.decode([int(token)])
        begins = piece.startswith(("▁", "Ġ")) or (joins and not piece.startswith(("##", "[")))
        text = text.removeprefix("##") if joins else text
        texts.append(f" {text}" if begins and not text.startswith(" ") else text)
    return texts
