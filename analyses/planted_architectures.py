"""Planted weights put into real Hugging Face models: GPT-2, Llama with grouped queries, BERT.

The multi-layer perceptrons write nothing and every normalisation is the identity on the planted
stream (`planted_space.scale`), so the model is its heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from rolecall.analyses.planted_space import ANCHOR, Space, grounded, scale
from rolecall.analyses.planted_weights import Geometry, Group, Rotary

TINY = 8
"""Width of the idle multi-layer perceptrons."""


@dataclass(frozen=True)
class Weights:
    """Everything a planted model is made of.

    Attributes:
        space: The axes of the residual stream.
        geometry: How positions are told.
        tokens: Embedding of each id.
        positions: Embedding of each position; zero rows where positions are rotary.
        layers: The KV groups of each layer, from below.
        answers: Direction whose product with the stream is each id's logit.
        biased: Whether constants are held by biases (where the model has them).
    """

    space: Space
    geometry: Geometry
    tokens: Float[Tensor, "d_vocab d_model"]
    positions: Float[Tensor, "n_ctx d_model"]
    layers: Sequence[Sequence[Group]]
    answers: Float[Tensor, "d_vocab d_model"]
    biased: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Layers, query heads a layer, KV groups a layer."""
        groups = self.layers[0]
        return len(self.layers), sum(len(g.W_Q) for g in groups), len(groups)


def noisy(group: Group, sigma: float, space: Space, generator: torch.Generator) -> Group:
    """The group with Gaussian noise of `sigma` times each matrix's own root mean square.

    What heads read off the anchor is spared: that axis is there for the norms alone and so large
    that noise on it would drown the rest.
    """
    spared = 1 - space["anchor"]

    def shaken(weight: Tensor) -> Tensor:
        size = weight.square().mean(dim=(-2, -1), keepdim=True).sqrt()
        return sigma * size * torch.randn(weight.shape, generator=generator)

    return Group(
        group.W_Q + shaken(group.W_Q) * spared,
        group.W_K + shaken(group.W_K) * spared,
        group.W_V + shaken(group.W_V) * spared,
        group.W_O + shaken(group.W_O),
    )


def packed(groups: Sequence[Group]) -> dict[str, Float[Tensor, "rows columns"]]:
    """Weights of a layer as one matrix a kind, heads beside each other, input axis first."""
    return {
        "q": rearrange(torch.cat([g.W_Q for g in groups]), "head model d -> model (head d)"),
        "k": torch.cat([g.W_K for g in groups], dim=1),
        "v": torch.cat([g.W_V for g in groups], dim=1),
        "o": rearrange(torch.cat([g.W_O for g in groups]), "head d model -> (head d) model"),
    }


def split_constant(
    weight: Float[Tensor, "d_model columns"], space: Space, biased: bool
) -> tuple[Float[Tensor, "d_model columns"], Float[Tensor, " columns"]]:
    """The weight without what it reads off the anchor, and that as a bias (else a zero one)."""
    if not biased:
        return weight, torch.zeros(weight.shape[1])
    anchor = space.axes["anchor"][0]
    kept = weight.clone()
    kept[anchor] = 0
    # The ground axis balanced the anchor's share of the mean; the bias needs no balance.
    kept[space.axes["ground"][0]] += weight[anchor]
    return kept, weight[anchor] * ANCHOR


def still(model: PreTrainedModel, gain: float) -> None:
    """Sets every weight to zero and the scales of all normalisations to `gain`, in place."""
    for name, parameter in model.named_parameters():
        nn.init.constant_(parameter, gain * (parameter.ndim == 1 and is_scale(name)))


def is_scale(name: str) -> bool:
    """Whether a parameter of this name multiplies a normalised stream."""
    return name.endswith("weight") and any(s in name.lower() for s in ("norm", "ln_"))


@torch.no_grad()
def gpt2(weights: Weights) -> PreTrainedModel:
    """A GPT-2 (pre-norm, LayerNorm, learned positions, biases) with these weights."""
    n_layers, n_heads, _ = weights.shape
    space = weights.space
    config = GPT2Config(
        vocab_size=len(weights.tokens),
        n_positions=len(weights.positions),
        n_embd=space.d_model,
        n_layer=n_layers,
        n_head=n_heads,
        n_inner=TINY,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = GPT2LMHeadModel(config).eval()
    still(model, scale(space, centred=True))
    model.transformer.wte.weight.copy_(weights.tokens)
    model.transformer.wpe.weight.copy_(weights.positions)
    model.lm_head.weight.copy_(grounded(weights.answers.T, space).T)
    for block, groups in zip(cast("Any", model.transformer.h), weights.layers, strict=True):
        matrices = packed(groups)
        parts = [split_constant(matrices[k], space, weights.biased) for k in "qkv"]
        block.attn.c_attn.weight.copy_(torch.cat([w for w, _ in parts], dim=1))
        block.attn.c_attn.bias.copy_(torch.cat([b for _, b in parts]))
        block.attn.c_proj.weight.copy_(matrices["o"])
    return model


@torch.no_grad()
def llama(weights: Weights) -> PreTrainedModel:
    """A Llama (pre-norm, RMSNorm, rotary positions, grouped queries) with these weights."""
    n_layers, n_heads, n_groups = weights.shape
    space, geometry = weights.space, weights.geometry
    assert isinstance(geometry, Rotary)
    config = LlamaConfig(
        vocab_size=len(weights.tokens),
        max_position_embeddings=len(weights.positions),
        hidden_size=space.d_model,
        intermediate_size=TINY,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        num_key_value_heads=n_groups,
        head_dim=geometry.d_head,
        rope_parameters={"rope_type": "default", "rope_theta": geometry.base},
        attention_bias=weights.biased,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    still(model, scale(space, centred=False))
    model.model.embed_tokens.weight.copy_(weights.tokens)
    model.lm_head.weight.copy_(weights.answers)
    for block, groups in zip(cast("Any", model.model.layers), weights.layers, strict=True):
        matrices, attention = packed(groups), block.self_attn
        for kind, linear in zip(
            "qkv", (attention.q_proj, attention.k_proj, attention.v_proj), strict=True
        ):
            place(linear, *split_constant(matrices[kind], space, weights.biased))
        place(attention.o_proj, matrices["o"], torch.zeros(space.d_model))
    return model


@torch.no_grad()
def bert(weights: Weights) -> PreTrainedModel:
    """A BERT (post-norm, learned positions, both directions, biases) with these weights."""
    n_layers, n_heads, _ = weights.shape
    space = weights.space
    config = BertConfig(
        vocab_size=len(weights.tokens),
        max_position_embeddings=len(weights.positions),
        hidden_size=space.d_model,
        intermediate_size=TINY,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        tie_word_embeddings=False,
        pad_token_id=None,
    )
    model = BertForMaskedLM(config).eval()
    still(model, scale(space, centred=True))
    embeddings, head = model.bert.embeddings, model.cls.predictions
    embeddings.word_embeddings.weight.copy_(weights.tokens)
    embeddings.position_embeddings.weight.copy_(weights.positions)
    for block, groups in zip(cast("Any", model.bert.encoder.layer), weights.layers, strict=True):
        matrices, attention = packed(groups), block.attention
        for kind, linear in zip(
            "qkv", (attention.self.query, attention.self.key, attention.self.value), strict=True
        ):
            place(linear, *split_constant(matrices[kind], space, weights.biased))
        place(attention.output.dense, matrices["o"], torch.zeros(space.d_model))
    # Far above zero GELU is the identity, and the LayerNorm behind it takes the lift off again.
    place(head.transform.dense, torch.eye(space.d_model), torch.full((space.d_model,), LIFT))
    head.decoder.weight.copy_(grounded(weights.answers.T, space).T)
    return model


LIFT = 32.0
"""Bias that keeps BERT's GELU in its straight part."""


def place(
    linear: nn.Linear, weight: Float[Tensor, "inner outer"], bias: Float[Tensor, " outer"]
) -> None:
    """Puts a weight, input axis first, and a bias into a linear map, in place.

    Raises:
        ValueError: The bias is not zero and the map has none.
    """
    linear.weight.copy_(weight.T)
    if linear.bias is not None:
        linear.bias.copy_(bias)
    elif bias.any():
        raise ValueError("this model has no biases here; plant it with biased=False")


ARCHITECTURES: dict[str, Callable[[Weights], PreTrainedModel]] = {
    "gpt2": gpt2,
    "llama": llama,
    "bert": bert,
}
