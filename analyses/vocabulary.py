"""What a tokenizer allows: the aligner a model's data sets are made with, and its plain tokens."""

from __future__ import annotations

import re
from typing import Any, Literal

from rolecall.probes.aligner import Aligner

BosPolicy = bool | Literal["auto"]

# Tokens that stand for no text: bytes, unused slots, and control marks that a converted
# tokenizer (GGUF) has not declared special.
_NO_TEXT = re.compile(r"<0x[0-9A-Fa-f]{2}>|\[unused\d+\]|<unused\d+>|<extra_id_\d+>|<\|.*\|>")


def build_aligner(
    tokenizer: Any, *, d_vocab: int, causal: bool, max_length: int, bos: BosPolicy
) -> Aligner:
    """The aligner of a model with this tokenizer (None: token ids only).

    The first token is the tokenizer's own BOS where it has one; `bos=False` leaves it out and
    `bos=True` insists on it. Encoders take CLS first and SEP last, whatever `bos` says.

    Raises:
        ValueError: The tokenizer is not a fast one, has tokens that the model has no embeddings
            for, or `bos=True` and it has no BOS.
    """
    if tokenizer is not None:
        _require_usable(tokenizer, d_vocab)
    first, last = (
        (_first_token(tokenizer, bos), None)
        if causal
        else (getattr(tokenizer, "cls_token_id", None), getattr(tokenizer, "sep_token_id", None))
    )
    return Aligner(
        tokenizer=tokenizer,
        d_vocab=d_vocab,
        causal=causal,
        bos=first,
        eos=last,
        max_length=max_length,
        ordinary=ordinary_ids(tokenizer, d_vocab),
    )


def ordinary_ids(tokenizer: Any, d_vocab: int) -> tuple[int, ...]:
    """Ids fit for random text, ascending: no special, added, unused, byte or control token.

    What is left decodes to something printable that is not blank. Without a tokenizer nothing is
    known of the ids, and all of them are returned.
    """
    if tokenizer is None:
        return tuple(range(d_vocab))
    ids = range(min(d_vocab, len(tokenizer)))
    marks = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    texts = tokenizer.backend_tokenizer.decode_batch(
        [[token_id] for token_id in ids], skip_special_tokens=False
    )
    return tuple(
        token_id
        for token_id, token, text in zip(ids, tokens, texts, strict=True)
        if token is not None and token_id not in marks and _is_text(token, text)
    )


def _is_text(token: str, text: str) -> bool:
    # U+FFFD: part of a character, cut by a byte-level tokenizer.
    shown = text.strip()
    return (
        bool(shown)
        and shown.isprintable()
        and "\ufffd" not in shown
        and not _NO_TEXT.fullmatch(token)
    )


def _first_token(tokenizer: Any, bos: BosPolicy) -> int | None:
    if bos not in (True, False, "auto"):
        raise ValueError(f"bos is 'auto', True or False, not {bos!r}")
    own = getattr(tokenizer, "bos_token_id", None)
    if bos is True and own is None:
        raise ValueError("bos=True, but the tokenizer has no BOS token; use bos='auto' or False")
    return own if bos else None


def _require_usable(tokenizer: Any, d_vocab: int) -> None:
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"a fast tokenizer is needed to find words in the tokens, and "
            f"{type(tokenizer).__name__} is not one; save it with a tokenizer.json"
        )
    # Marks that were added later may lack an embedding; no text of ours holds them.
    if tokenizer.vocab_size > d_vocab:
        raise ValueError(
            f"the tokenizer has {tokenizer.vocab_size} tokens, the model embeddings for {d_vocab}; "
            "give the tokenizer that the model was trained with"
        )
