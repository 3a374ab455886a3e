"""A model in two forms over the same weights: one to hook, one to run fast.

This is the only file that names TransformerLens classes.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from rolecall.analyses.hashes import tokenizer_hash, weights_hash
from rolecall.analyses.quiet import quiet
from rolecall.analyses.sources import Opened, open_source
from rolecall.analyses.vocabulary import BosPolicy, build_aligner
from rolecall.probes.aligner import Aligner

with quiet():
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.model_bridge.generalized_components import ParallelBlockBridge
    from transformer_lens.model_bridge.sources import (
        build_bridge_from_module,
        detect_tokenizer_bos_eos,
    )

Processing = Literal["none", "fold_value_biases", "compatibility"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Model:
    """A transformer, its tokenizer, and what its heads look like.

    Attributes:
        name: What tables call it.
        bridge: The hooked form; attention is eager, so `hook_pattern` fires in every layer of
            `pattern_layers`.
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
    bridge: TransformerBridge = field(repr=False)
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


def load_model(
    source: Any = None,
    *,
    tokenizer: Any = None,
    device: str = "cpu",
    dtype: str = "float32",
    bos: BosPolicy = "auto",
    revision: str | None = None,
    processing: Processing = "none",
) -> Model:
    """A model ready to be scanned.

    Args:
        source: None (the model rolecall carries), a hub id, a folder in Hugging Face form, a
            .gguf file, a Hugging Face model in memory, or a TransformerBridge. What is given in
            memory stays where it is, in its own dtype, and is not written to.
        tokenizer: Needed for text where `source` is in memory; else it replaces the model's own.
        device: Where a named model goes.
        dtype: float32, bfloat16 or float16.
        bos: Whether the tokenizer's BOS stands first: "auto" where it has one.
        revision: Branch, tag or commit on the hub.
        processing: "none" leaves the weights as they are; "fold_value_biases" moves `b_V W_O`
            into `b_O`; "compatibility" is all that TransformerLens' compatibility mode does.

    Raises:
        ValueError: In one line, what cannot be read and what could be given instead.
    """
    if isinstance(source, TransformerBridge):
        own = tokenizer if tokenizer is not None else source.tokenizer
        opened = Opened(None, own, source.cfg.model_name or "bridge", None, _has_head(source))
        return _assemble(source, opened, bos=bos, processing=_processed(source))
    if isinstance(source, PreTrainedModel):
        opened = _in_memory(source, tokenizer)
    elif source is None or isinstance(source, str | os.PathLike):
        opened = open_source(source, dtype=_dtype(dtype), revision=revision, tokenizer=tokenizer)
        opened.module.to(_device(device))
    else:
        raise ValueError(
            f"a model is a name, a Hugging Face model or a TransformerBridge, not "
            f"{type(source).__name__}"
        )
    with quiet():
        bridge = _bridge(opened, processing)
    return _assemble(bridge, opened, bos=bos, processing=processing)


def share(module: nn.Module) -> Any:
    """A second module of the same structure over the very same parameters and buffers."""
    tensors = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})


def _in_memory(module: PreTrainedModel, tokenizer: Any) -> Opened:
    name = module.name_or_path or type(module).__name__
    # A base model (BertModel, GPT2Model) is its own base: nothing follows that makes logits.
    has_head = module.base_model is not module
    return Opened(module, tokenizer, os.path.basename(name), None, has_head)


def _bridge(opened: Opened, processing: Processing) -> TransformerBridge:
    if processing not in ("none", "fold_value_biases", "compatibility"):
        raise ValueError(
            f"processing is none, fold_value_biases or compatibility, not {processing!r}"
        )
    # Processing writes into the weights, so it gets its own.
    shell = share(opened.module) if processing == "none" else copy.deepcopy(opened.module)
    shell.set_attn_implementation("eager")
    architecture = _architecture(shell)
    try:
        bridge = build_bridge_from_module(
            shell,
            architecture,
            hf_config=shell.config,
            model_name=opened.name,
            post_adapter_hook=None if opened.has_lm_head else _without_head(shell),
        )
    except (ValueError, NotImplementedError, AttributeError, RuntimeError) as error:
        reason = shorten(str(error), 200)
        raise ValueError(
            f"{opened.name}: TransformerLens cannot hook this {type(shell).__name__}: {reason}"
        ) from error
    if opened.tokenizer is not None:
        # Given to the builder it would be loaded anew by name, from the hub if need be.
        bridge.tokenizer = opened.tokenizer
        cfg = bridge.cfg
        cfg.tokenizer_prepends_bos, cfg.tokenizer_appends_eos = detect_tokenizer_bos_eos(
            opened.tokenizer
        )
    if processing != "none":
        everything = processing == "compatibility"
        bridge.enable_compatibility_mode(
            disable_warnings=True,
            fold_ln=everything,
            center_writing_weights=everything,
            center_unembed=everything,
        )
    return bridge


def _architecture(module: Any) -> str:
    """The name TransformerLens maps the module by: its class's, or that of its family with a head.

    Raises:
        ValueError: TransformerLens has no map of it.
    """
    kind = module.config.model_type
    families = (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    if type(module.config) in MODEL_FOR_MASKED_LM_MAPPING:
        families = families[::-1]
    for name in (type(module).__name__, *(family.get(kind) for family in families)):
        if name in SUPPORTED_ARCHITECTURES:
            return name
    raise ValueError(
        f"the architecture {type(module).__name__} is not one that TransformerLens can hook; "
        "decoders and BERT-like encoders of the usual families are"
    )


def _without_head(module: Any) -> Any:
    """Takes the head out of TransformerLens' map, and the prefix it gives the body's modules."""
    prefix = "" if module.base_model is not module else f"{module.base_model_prefix}."

    def adjust(adapter: Any) -> None:
        parts = adapter.component_mapping
        for head in (
            "mlm_head",
            "unembed",
            *(() if adapter.cfg.attention_dir == "causal" else ("ln_final",)),
        ):
            parts.pop(head, None)
        for part in parts.values():
            part.name = part.name.removeprefix(prefix)

    return adjust


def _assemble(
    bridge: TransformerBridge, opened: Opened, *, bos: BosPolicy, processing: str
) -> Model:
    cfg = bridge.cfg
    layers = tuple(layer for layer, block in enumerate(bridge.blocks) if "attn" in block._modules)
    if not layers:
        raise ValueError(f"{opened.name} ({cfg.architecture}) has no softmax attention to read")
    weight = next(bridge.original_model.parameters())
    causal = cfg.attention_dir == "causal"
    aligner = build_aligner(
        opened.tokenizer, d_vocab=cfg.d_vocab, causal=causal, max_length=cfg.n_ctx, bos=bos
    )
    block = bridge.blocks[layers[0]]
    plain = opened.module if processing == "none" else None
    return Model(
        name=opened.name,
        bridge=bridge,
        plain=plain,
        tokenizer=opened.tokenizer,
        aligner=aligner,
        n_layers=len(bridge.blocks),
        pattern_layers=layers,
        n_heads=cfg.n_heads,
        n_kv_heads=cfg.n_key_value_heads or cfg.n_heads,
        d_head=cfg.d_head,
        d_model=cfg.d_model,
        d_vocab=cfg.d_vocab,
        n_ctx=cfg.n_ctx,
        causal=causal,
        has_lm_head=opened.has_lm_head,
        device=weight.device,
        dtype=weight.dtype,
        post_norm="ln1_post" in block._modules or not causal,
        parallel=isinstance(block, ParallelBlockBridge),
        softcap=_positive(cfg.output_logits_soft_cap),
        facts=_facts(bridge, opened, aligner=aligner, bos=bos, processing=processing),
    )


def _facts(
    bridge: TransformerBridge, opened: Opened, *, aligner: Aligner, bos: BosPolicy, processing: str
) -> dict[str, Any]:
    module = bridge.original_model if opened.module is None else opened.module
    weight = next(module.parameters())
    return {
        "name": opened.name,
        "architecture": bridge.cfg.architecture,
        "revision": opened.revision,
        "weights_hash": weights_hash(module),
        "tokenizer_hash": tokenizer_hash(opened.tokenizer),
        "n_params": sum(parameter.numel() for parameter in module.parameters()),
        "processing": processing,
        "dtype": str(weight.dtype).removeprefix("torch."),
        "device": str(weight.device),
        "attention": "eager",
        "bos": {"policy": bos, "id": aligner.bos},
    }


def _processed(bridge: TransformerBridge) -> str:
    return "as given, in compatibility mode" if bridge.compatibility_mode else "as given"


def _has_head(bridge: TransformerBridge) -> bool:
    return "unembed" in bridge._modules


def _positive(value: float | None) -> float | None:
    return float(value) if value is not None and value > 0 else None


def _dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise ValueError(f"dtype is one of {', '.join(DTYPES)}, not {name!r}")
    return DTYPES[name]


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    # torch raises AssertionError where CUDA was not built in, RuntimeError for the rest.
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name!r} cannot be used here; use 'cpu'") from error
    return device
