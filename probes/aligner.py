"""Text to tokens: one aligner maps character spans to token positions for any fast tokenizer."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolecall.probes.base import Positions

# A word is a run of letters and digits, or one other mark. A line break is a mark: it delimits.
WORD = re.compile(r"[^\W_]+|[^\w\s]|_|\n")
BLANKS = " \t\r\f\v\u00a0"

AT_ONCE = 128
"""Texts in one call of the tokenizer, whose answer is many times the size of the texts."""


@dataclass(frozen=True)
class Encoded:
    """A text as the model reads it.

    Attributes:
        text: The text that was encoded.
        token_ids: With exactly one BOS (or CLS … SEP) where the model has one.
        offsets: Character span of each token, half open, without blanks; (0, 0) for specials.
        special: Positions of special tokens, those that the aligner added and those that stood
            in the text as literal strings.
        unknown: Positions of tokens that stand for a word the tokenizer does not have.
    """

    text: str
    token_ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    special: Positions
    unknown: Positions = ()


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
        """The text's tokens with their character spans, special tokens added by our own rule.

        The rule: BOS (or CLS) once at the front and SEP once behind, where the model has them.
        A literal BOS at the start of the text counts as that one; other literal specials stay,
        are listed in `special`, and a warning says so.

        Raises:
            ValueError: There is no tokenizer.
        """
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> tuple[Encoded, ...]:
        """Each text as `encode` gives it."""
        return tuple(self.encode_each(texts))

    def encode_each(self, texts: Sequence[str]) -> Iterator[Encoded]:
        """Yields each text as `encode` gives it, with no more than `AT_ONCE` of them held."""
        if self.tokenizer is None:
            raise ValueError("this aligner has no tokenizer, so it reads token ids, not text")
        specials = frozenset(self.tokenizer.all_special_ids)
        for start in range(0, len(texts), AT_ONCE):
            part = list(texts[start : start + AT_ONCE])
            batch = self.tokenizer(
                part, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
            for text, ids, spans in zip(
                part, batch["input_ids"], batch["offset_mapping"], strict=True
            ):
                yield self._encoded(text, ids, spans, specials)

    def _encoded(
        self,
        text: str,
        ids: Sequence[int],
        spans: Sequence[tuple[int, int]],
        specials: frozenset[int],
    ) -> Encoded:
        unk = self.tokenizer.unk_token_id
        if self.bos is not None and ids and ids[0] == self.bos:
            _warn_literal(self.tokenizer, self.bos, "at the start; it is not added a second time")
            ids, spans = ids[1:], spans[1:]
        if self.eos is not None and ids and ids[-1] == self.eos:
            _warn_literal(self.tokenizer, self.eos, "at the end; it is not added a second time")
            ids, spans = ids[:-1], spans[:-1]
        front = 0 if self.bos is None else 1
        # A tokenizer without UNK proper may name its end token there; ours to call special.
        literal = [p for p, i in enumerate(ids) if i in specials and i != unk]
        if literal:
            _warn_literal(self.tokenizer, ids[literal[0]], "inside; it is not read as a word")
        token_ids = self.frame(tuple(ids))
        edges = ([0] if front else []) + ([len(token_ids) - 1] if self.eos is not None else [])
        offsets = [_without_blanks(text, start, end) for start, end in spans]
        for position in literal:
            offsets[position] = (0, 0)
        return Encoded(
            text=text,
            token_ids=token_ids,
            offsets=((0, 0),) * front + tuple(offsets) + ((0, 0),) * (self.eos is not None),
            special=tuple(sorted([p + front for p in literal] + edges)),
            unknown=tuple(p + front for p, i in enumerate(ids) if unk is not None and i == unk),
        )

    def frame(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """The ids with BOS before and, in encoders, SEP behind.

        Raises:
            ValueError: An id is below 0 or not below the number of embeddings.
        """
        for i in ids:
            if not 0 <= i < self.d_vocab:
                raise ValueError(
                    f"token id {i} is outside the vocabulary of {self.d_vocab}; "
                    f"ids run from 0 to {self.d_vocab - 1}"
                )
        front = () if self.bos is None else (self.bos,)
        return front + tuple(ids) + (() if self.eos is None else (self.eos,))

    @property
    def start(self) -> int:
        """The position of the first token that is not special: 1 after a BOS, else 0."""
        return 0 if self.bos is None else 1

    def fits(self, length: int) -> bool:
        """True if so many tokens, special ones not counted, fit into the model's context."""
        return length + self.start + (self.eos is not None) <= self.max_length

    def positions(self, encoded: Encoded, start: int, end: int) -> Positions:
        """Positions of all tokens that share a non-blank character with text[start:end]."""
        return tuple(
            position
            for position, (left, right) in enumerate(encoded.offsets)
            if left < end and start < right and left < right
        )

    def query(self, positions: Positions) -> Positions:
        """Where a word is looked from: its last piece in a decoder, all pieces in an encoder."""
        return positions[-1:] if self.causal else positions

    def words(self, encoded: Encoded) -> tuple[Positions, ...]:
        """Positions of each word, a word being a run of letters, digits or one other mark.

        Words that share a token (as `)` and `,` do in `),`) count as one, so that no position
        belongs to two words.
        """
        found = (positions for _, positions in self.spelled(encoded))
        return tuple(found)

    def spelled(self, encoded: Encoded) -> Iterator[tuple[str, Positions]]:
        """Yields each word's letters with its positions; see `words`."""
        spans = [m.span() for m in WORD.finditer(encoded.text)]
        groups: list[tuple[int, int, list[int]]] = []
        first = 0
        for start, end in spans:
            while first < len(encoded.offsets) and encoded.offsets[first][1] <= start:
                first += 1
            covering = list(_covering(encoded.offsets, first, end))
            if not covering:
                continue
            if groups and groups[-1][2][-1] >= covering[0]:
                left, _, positions = groups.pop()
                groups.append((left, end, sorted({*positions, *covering})))
            else:
                groups.append((start, end, covering))
        for start, end, positions in groups:
            yield encoded.text[start:end], tuple(positions)


def _covering(offsets: Sequence[tuple[int, int]], first: int, end: int) -> Iterator[int]:
    for position in range(first, len(offsets)):
        left, right = offsets[position]
        if left >= end:
            return
        if left < right:
            yield position


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in BLANKS:
        start += 1
    while end > start and text[end - 1] in BLANKS:
        end -= 1
    return start, end


def _warn_literal(tokenizer: Any, token_id: int, where: str) -> None:
    token = tokenizer.convert_ids_to_tokens(token_id)
    warnings.warn(f"the text holds the special token {token!r} {where}", stacklevel=5)


def id_aligner(
    d_vocab: int,
    *,
    causal: bool = True,
    bos: int | None = None,
    eos: int | None = None,
    max_length: int = 512,
    reserved: Iterable[int] = (),
) -> Aligner:
    """An aligner without a tokenizer: random sequences only, every id ordinary but those reserved.

    Example:
        >>> id_aligner(6, bos=0, reserved=[5]).ordinary
        (1, 2, 3, 4)
    """
    kept = {bos, eos, *reserved}
    ordinary = tuple(i for i in range(d_vocab) if i not in kept)
    return Aligner(None, d_vocab, causal, bos, eos, max_length, ordinary)


def describe(aligner: Aligner) -> Mapping[str, Any]:
    """What the manifest says of the tokens: BOS policy and the tokenizer's hash.

    Example:
        >>> describe(id_aligner(6, bos=0))["bos"]
        0
    """
    tokenizer = aligner.tokenizer
    return {
        "bos": aligner.bos,
        "bos_token": None if tokenizer is None else _token(tokenizer, aligner.bos),
        "eos": aligner.eos,
        "causal": aligner.causal,
        "max_length": aligner.max_length,
        "d_vocab": aligner.d_vocab,
        "n_ordinary": len(aligner.ordinary),
        "tokenizer_hash": None if tokenizer is None else tokenizer_hash(tokenizer),
    }


def _token(tokenizer: Any, token_id: int | None) -> str | None:
    return None if token_id is None else tokenizer.convert_ids_to_tokens(token_id)


def tokenizer_hash(tokenizer: Any) -> str:
    """SHA-256 of what turns text into ids: vocabulary, merges, normaliser, splitter."""
    spelled = tokenizer.backend_tokenizer.to_str()
    return hashlib.sha256(spelled.encode("utf-8")).hexdigest()
