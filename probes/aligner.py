"""Text to tokens: one aligner maps character spans to token positions for any fast tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rolecall.probes.base import Positions


@dataclass(frozen=True)
class Encoded:
    """A text as the model reads it.

    Attributes:
        text: The text that was encoded.
        token_ids: With exactly one BOS (or CLS … SEP) where the model has one.
        offsets: Character span of each token, half open, without blanks; (0, 0) for specials.
        special: Positions of special tokens that the aligner added.
    """

    text: str
    token_ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    special: Positions


@dataclass(frozen=True)
class Aligner:
    """What a data set may know of a model: its tokenizer, its mask and its length; no weights.

    Attributes:
        tokenizer: A fast Hugging Face tokenizer (or None where only ids are used).
        d_vocab: Number of ids the model has embeddings for.
        causal: True for decoders: a query sees only itself and what stands before it.
        bos: The id put first, or None. Encoders: CLS.
        eos: The id put last (encoders: SEP), or None.
        max_length: The longest input.
        ordinary: Ids fit for random text: no special, unused, byte or control tokens.
    """

    tokenizer: Any
    d_vocab: int
    causal: bool
    bos: int | None
    eos: int | None
    max_length: int
    ordinary: tuple[int, ...]

    def encode(self, text: str) -> Encoded:
        """The text's tokens with their character spans, special tokens added by our own rule."""
        raise NotImplementedError

    def frame(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """The ids with BOS before and, in encoders, SEP behind."""
        raise NotImplementedError

    def positions(self, encoded: Encoded, start: int, end: int) -> Positions:
        """Positions of all tokens that share a non-blank character with text[start:end]."""
        raise NotImplementedError

    def query(self, positions: Positions) -> Positions:
        """Where a word is looked from: its last piece in a decoder, all pieces in an encoder."""
        raise NotImplementedError

    def words(self, encoded: Encoded) -> tuple[Positions, ...]:
        """Positions of each word, a word being a run of letters, digits or one other mark."""
        raise NotImplementedError


def describe(aligner: Aligner) -> Mapping[str, Any]:
    """What the manifest says of the tokens: BOS policy and the tokenizer's hash."""
    raise NotImplementedError
