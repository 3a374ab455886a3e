"""Small random Hugging Face models of every family that must be read, with tokenizers made here.

All have 512 ids, width 32, 2 layers of 4 heads and 64 positions; the names are those of the
cases (T-gpt2b is `gpt2b`). Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer, WordPieceTrainer

TEXT = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.",
    "One day, Tim saw a big dog. The dog was sad because it had lost its ball.",
    "The nurse thanked the guard for his help and gave him tea with two sugars.",
    "Tom met Zoë in the garden. She said hello, and they walked home together.",
)

_SIZES: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_GPT_SIZES: dict[str, Any] = {
    "vocab_size": 512,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED: dict[str, Any] = {**_SIZES, "num_key_value_heads": 2}
BERT_SIZES: dict[str, Any] = {
    name: size for name, size in _SIZES.items() if name not in ("bos_token_id", "eos_token_id")
}


def _gpt2() -> Any:
    return hf.GPT2LMHeadModel(hf.GPT2Config(**_GPT_SIZES))


def _gpt2b() -> Any:
    """GPT-2 with large weights and biases, so that nothing hides behind zeros."""
    module = _gpt2()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.normal_(0.0, 0.5 if name.endswith("bias") else 0.2)
    return module


def _neox(parallel: bool) -> Any:
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**_SIZES, use_parallel_residual=parallel))


def _gptj() -> Any:
    return hf.GPTJForCausalLM(hf.GPTJConfig(**_GPT_SIZES, rotary_dim=4))


def _llama() -> Any:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**_GROUPED, initializer_range=0.2))


def _gemma2() -> Any:
    return hf.Gemma2ForCausalLM(
        hf.Gemma2Config(
            **_GROUPED,
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=8,
            attn_logit_softcapping=50.0,
            final_logit_softcapping=30.0,
            initializer_range=0.3,
        )
    )


def _mistral() -> Any:
    return hf.MistralForCausalLM(hf.MistralConfig(**_GROUPED, sliding_window=8))


def _qwen3() -> Any:
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**_GROUPED, head_dim=16, initializer_range=0.2))


def _lfm2() -> Any:
    """A hybrid: of its four layers, the first and the last have no softmax attention."""
    kinds = ["conv", "full_attention", "full_attention", "conv"]
    return hf.Lfm2ForCausalLM(
        hf.Lfm2Config(**{**_GROUPED, "num_hidden_layers": 4}, layer_types=kinds)
    )


def _bert() -> Any:
    return hf.BertForMaskedLM(hf.BertConfig(**BERT_SIZES, initializer_range=0.2))


def _roberta() -> Any:
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**BERT_SIZES, initializer_range=0.2))


def _bert_body() -> Any:
    return hf.BertModel(hf.BertConfig(**BERT_SIZES, initializer_range=0.2))


FAMILIES: dict[str, Callable[[], Any]] = {
    "gpt2": _gpt2,
    "gpt2b": _gpt2b,
    "neox": lambda: _neox(True),
    "neox_sequential": lambda: _neox(False),
    "gptj": _gptj,
    "llama": _llama,
    "gemma2": _gemma2,
    "mistral": _mistral,
    "qwen3": _qwen3,
    "lfm2": _lfm2,
    "bert": _bert,
    "roberta": _roberta,
    "bert_body": _bert_body,
}
ENCODERS = ("bert", "roberta", "bert_body")
DECODERS = tuple(family for family in FAMILIES if family not in ENCODERS)


def build(family: str, *, seed: int = 0) -> Any:
    """The family's random model in eval mode, the same for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return FAMILIES[family]().eval()


def tokenizer_for(family: str) -> Any:
    """A fast tokenizer of the family's kind: [CLS] … [SEP] in encoders, none first in Qwen."""
    if family in ENCODERS:
        return word_pieces()
    return byte_pairs(bos=family != "qwen3")


def byte_pairs(*, bos: bool = True) -> Any:
    """A byte-level BPE tokenizer: <unk>, <s>, </s>, then bytes and merges; no BOS if told so."""
    inner = Tokenizer(models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=400,
        special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(TEXT * 8, trainer)
    first: dict[str, Any] = {"bos_token": "<s>"} if bos else {}
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", eos_token="</s>", **first
    )


def word_pieces() -> Any:
    """A BERT tokenizer: [PAD], [UNK], [CLS], [SEP], [MASK], two unused slots, then word pieces."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    trainer = WordPieceTrainer(
        vocab_size=300, special_tokens=[*marks, "[unused0]", "[unused1]"], show_progress=False
    )
    inner.train_from_iterator(TEXT * 8, trainer)
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=inner, **dict(zip(names, marks, strict=True))
    )


def save(family: str, folder: Path, *, seed: int = 0) -> Path:
    """The folder, with the family's model and tokenizer in Hugging Face form."""
    build(family, seed=seed).save_pretrained(folder)
    tokenizer_for(family).save_pretrained(folder)
    return folder
