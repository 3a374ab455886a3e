"""Scores worked out again from exported examples, with plain transformers and numpy alone."""

from __future__ import annotations

import json

import numpy as np
import torch


def attention(module, token_ids: list[int]) -> np.ndarray:
    """[layer, head, query, key], from Hugging Face's own eager attention."""
    with torch.no_grad():
        out = module(torch.tensor([token_ids]), output_attentions=True)
    return torch.stack(out.attentions)[:, 0].double().numpy()


def scores(module, lines: list[str], *, kind: str, causal: bool) -> np.ndarray:
    """[layer, head]: the mean over an example's links, then over examples."""
    examples = []
    for line in lines:
        example = json.loads(line)
        pattern = attention(module, example["token_ids"])
        links = [_link(pattern, example["words"], link, kind, causal) for link in example["links"]]
        examples.append(np.mean(links, axis=0))
    return np.mean(examples, axis=0)


def _link(pattern, words, link, kind, causal):
    row = pattern[:, :, link["query"]].mean(axis=2)
    mass = row[:, :, link["target"]].sum(axis=2)
    if kind == "mass":
        return mass
    shut = set(link["query"]) | set(link["target"])
    rest = [
        row[:, :, word].sum(axis=2)
        for word in words
        if shut.isdisjoint(word) and (not causal or max(word) <= max(link["query"]))
    ]
    return (mass > np.max(rest, axis=0)).astype(float) if rest else np.ones_like(mass)
