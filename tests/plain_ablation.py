"""Effects worked out again with plain transformers and one forward pre-hook, nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch

PROJECTIONS: dict[str, Callable[[Any, int], Any]] = {
    "gpt2": lambda m, layer: m.transformer.h[layer].attn.c_proj,
    "gpt2b": lambda m, layer: m.transformer.h[layer].attn.c_proj,
    "gptj": lambda m, layer: m.transformer.h[layer].attn.out_proj,
    "neox": lambda m, layer: m.gpt_neox.layers[layer].attention.dense,
    "neox_sequential": lambda m, layer: m.gpt_neox.layers[layer].attention.dense,
    "lfm2": lambda m, layer: m.model.layers[layer].self_attn.out_proj,
    "bert": lambda m, layer: m.bert.encoder.layer[layer].attention.output.dense,
    **{
        name: lambda m, layer: m.model.layers[layer].self_attn.o_proj
        for name in ("llama", "gemma2", "mistral", "qwen3")
    },
}


@contextmanager
def replaced_z(projection, heads, d_head, value=0.0):
    """Puts `value` (a number, or a tensor like z) in place of what these heads hand over."""

    def hook(_module, args):
        z = args[0].clone()
        for head in heads:
            part = slice(head * d_head, (head + 1) * d_head)
            z[..., part] = value[..., part] if isinstance(value, torch.Tensor) else value
        return (z, *args[1:])

    handle = projection.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def z_of(module, projection, token_ids):
    """What all heads of a layer hand to the projection on this input."""
    kept = {}
    handle = projection.register_forward_pre_hook(lambda _m, args: kept.update(z=args[0]))
    module(torch.tensor([token_ids]))
    handle.remove()
    return kept["z"]


@torch.no_grad()
def metric(module, item, *, causal=True, mask=None):
    """An item's logit difference or loss, one item at a time."""
    ids = list(item.token_ids)
    places = item.positions or (item.position,)
    if not causal:
        for place in places:
            ids[place] = mask
    logits = module(torch.tensor([ids])).logits[0]
    if item.positions:
        rows = torch.log_softmax(logits, -1)
        return -sum(rows[p - causal, item.token_ids[p]].item() for p in places) / len(places)
    return (logits[item.position, item.answer] - logits[item.position, item.foil]).item()
