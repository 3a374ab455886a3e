"""What a model is to us: one network in two forms, and the shape of its heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from rolecall.probes.aligner import Aligner


@dataclass(frozen=True)
class Model:
    """A transformer, its tokenizer, and what its heads look like.

    Attributes:
        name: What tables call it.
        bridge: The hooked form, a TransformerBridge; attention is eager, so `hook_pattern` fires
            in every layer of `pattern_layers`.
        plain: The Hugging Face module over the same parameters, free to use fused attention;
            None where only a bridge was given, or where the bridge's weights were processed.
        tokenizer: A fast tokenizer, or None (token ids only).
        aligner: What data sets may know of the model.
        n_layers: Blocks, those without softmax attention included.
        pattern_layers: The true indices of the layers that have attention patterns.
        n_heads: Query heads in a layer.
        n_kv_heads: Key-value groups in a layer.
        d_head: Width of a head, as the model says (not `d_model / n_heads`).
        d_model: Width of the residual stream.
        d_vocab: Token ids that have an embedding.
        n_ctx: Longest input.
        causal: A query sees only itself and what stands before it.
        has_lm_head: There are logits to read.
        device: Where the weights are.
        dtype: Their type.
        post_norm: A norm follows the attention output before it is added to the residual stream
            (Gemma-2), or the sum is normed (BERT): direct effects are approximate.
        parallel: Attention and MLP read the same residual; there is none in between.
        softcap: The bound on the logits, or None.
        facts: What the manifest says of the model.
    """

    name: str
    bridge: Any = field(repr=False)
    plain: nn.Module | None = field(repr=False)
    tokenizer: Any = field(repr=False)
    aligner: Aligner = field(repr=False)
    n_layers: int
    pattern_layers: tuple[int, ...]
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_model: int
    d_vocab: int
    n_ctx: int
    causal: bool
    has_lm_head: bool
    device: torch.device
    dtype: torch.dtype
    post_norm: bool
    parallel: bool
    softcap: float | None
    facts: Mapping[str, Any] = field(repr=False)

    def kv_group(self, head: int) -> int:
        """The key-value group that a query head reads."""
        return head // (self.n_heads // self.n_kv_heads)

    def attention(self, layer: int) -> Any:
        """The hooked attention module of a layer."""
        return self.bridge.blocks[layer].attn

    def attention_output(self, layer: int) -> nn.Module:
        """The hook at which the sum of the heads and `b_O` can be seen, before any norm."""
        attention = self.attention(layer)
        # BERT and Bloom add the residual inside their attention module.
        inside = not self.causal or self.bridge.cfg.architecture.startswith("Bloom")
        return attention.o.hook_out if inside else attention.hook_out

    def W_Q(self, layer: int) -> Float[Tensor, "head d_model d_head"]:
        """Query weights."""
        return self.attention(layer).W_Q

    def W_K(self, layer: int) -> Float[Tensor, "kv d_model d_head"]:
        """Key weights, one a key-value group."""
        return self.attention(layer).W_K

    def W_V(self, layer: int) -> Float[Tensor, "kv d_model d_head"]:
        """Value weights, one a key-value group."""
        return self.attention(layer).W_V

    def W_O(self, layer: int) -> Float[Tensor, "head d_head d_model"]:
        """Output weights."""
        return self.attention(layer).W_O

    def b_O(self, layer: int) -> Float[Tensor, " d_model"] | None:
        """The bias of the attention output; it belongs to no head. None where there is none."""
        return self.attention(layer).b_O

    def W_U(self) -> Float[Tensor, "d_model d_vocab"]:
        """Unembedding weights.

        Raises:
            ValueError: The model has no language-model head.
        """
        self.require_lm_head()
        weight = self.bridge.unembed.original_component.weight
        return weight.T

    def b_U(self) -> Float[Tensor, " d_vocab"] | None:
        """The bias of the unembedding, or None."""
        self.require_lm_head()
        return getattr(self.bridge.unembed.original_component, "bias", None)

    def final_norm(self) -> nn.Module | None:
        """The norm between the last residual stream and the unembedding; None in encoders."""
        return getattr(self.bridge, "ln_final", None) if self.causal else None

    def body(self) -> nn.Module:
        """The hooked network without its head: token ids in, last hidden states out."""
        whole = self.bridge.original_model
        return whole.base_model if isinstance(whole, PreTrainedModel) else whole

    def require_lm_head(self) -> None:
        """Raises a ValueError where there are no logits to read."""
        if not self.has_lm_head:
            raise ValueError(
                f"{self.name} has no language-model head, so there are no logits; patterns and "
                "the last hidden states can be read"
            )
