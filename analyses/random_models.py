"""Models without any role: random weights in the shapes of GPT-2, Llama and BERT.

The weights are as they are before training, or wider, which makes heads that look sharply at
random words: harder not to be taken in by than even ones.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

SPREADS = (0.02, 0.1, 0.3)
"""Standard deviations of the weights: before training, and wider."""


def random_model(architecture: str, d_vocab: int, *, seed: int) -> PreTrainedModel:
    """A model of random weights; the seed fixes its size, their spread and the weights.

    Args:
        architecture: `gpt2`, `llama` or `bert`.
        d_vocab: Number of ids.
        seed: See above. The caller's random state stays as it was.
    """
    rng = Random(f"{architecture} {seed}")
    n_layers, n_heads, d_head = rng.choice((2, 3, 4)), rng.choice((4, 8)), rng.choice((16, 32))
    spread = SPREADS[seed % len(SPREADS)]
    common: dict[str, Any] = {"vocab_size": d_vocab, "initializer_range": spread}
    sizes: dict[str, Any] = {
        "hidden_size": n_heads * d_head,
        "intermediate_size": 2 * n_heads * d_head,
        "num_hidden_layers": n_layers,
        "num_attention_heads": n_heads,
        "max_position_embeddings": 128,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if architecture == "bert":
            return BertForMaskedLM(BertConfig(**common, **sizes, pad_token_id=None)).eval()
        if architecture == "llama":
            groups: dict[str, Any] = {"num_key_value_heads": n_heads // 2}
            tokens: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None}
            return LlamaForCausalLM(LlamaConfig(**common, **sizes, **groups, **tokens)).eval()
        config = GPT2Config(
            **common,
            n_embd=n_heads * d_head,
            n_layer=n_layers,
            n_head=n_heads,
            n_positions=128,
            bos_token_id=None,
            eos_token_id=None,
        )
        return GPT2LMHeadModel(config).eval()
