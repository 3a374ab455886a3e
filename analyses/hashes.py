"""Fingerprints of weights and tokenizers, so that a table says what it was made with."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import nn


def weights_hash(module: nn.Module) -> str:
    """SHA-256 over every parameter's name, type, shape and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name, parameter in sorted(module.named_parameters()):
        digest.update(f"{name} {parameter.dtype} {tuple(parameter.shape)}\n".encode())
        # numpy has no bfloat16; the bytes are the same under any type.
        flat = parameter.detach().to("cpu").contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def tokenizer_hash(tokenizer: Any) -> str | None:
    """SHA-256 of the tokenizer as it would be saved; None where there is none."""
    if tokenizer is None:
        return None
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()
