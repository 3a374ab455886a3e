"""Loading a model in two forms over the same weights: one to hook, one to run fast.

This is the only file that names TransformerLens classes.
"""

from __future__ import annotations

import copy
import os
from textwrap import shorten
from typing import Any

import torch
from torch import nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from rolecall.analyses.hashes import tokenizer_hash, weights_hash
from rolecall.analyses.model import Model
from rolecall.analyses.quiet import quiet
from rolecall.analyses.sources import Opened, open_source, require_hookable
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

PROCESSING = ("none", "fold_value_biases", "compatibility")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(
    source: Any = None,
    *,
    tokenizer: Any = None,
    device: str = "cpu",
    dtype: str = "float32",
    bos: BosPolicy = "auto",
    revision: str | None = None,
    processing: str = "none",
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
    if processing not in PROCESSING:
        raise ValueError(f"processing is one of {', '.join(PROCESSING)}, not {processing!r}")
    if isinstance(source, TransformerBridge):
        own = tokenizer if tokenizer is not None else source.tokenizer
        opened = Opened(None, own, source.cfg.model_name or "bridge", None, _has_head(source))
        return _assemble(source, opened, bos=bos, processing=_processed(source))
    if isinstance(source, PreTrainedModel):
        opened = _in_memory(source, tokenizer)
    elif source is None or isinstance(source, str | os.PathLike):
        place, kind = _device(device), _dtype(dtype)  # before the weights are read
        opened = open_source(source, dtype=kind, revision=revision, tokenizer=tokenizer)
        opened.module.to(place)
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
    name = os.path.basename(module.name_or_path or "") or type(module).__name__
    require_hookable(module.config, name)
    return Opened(module, tokenizer, name, None, module.get_output_embeddings() is not None)


def _bridge(opened: Opened, processing: str) -> TransformerBridge:
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
        # In an encoder the last norm is a part of the head.
        last_norm = () if adapter.cfg.attention_dir == "causal" else ("ln_final",)
        for head in ("mlm_head", "unembed", *last_norm):
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
