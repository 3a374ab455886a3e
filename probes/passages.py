"""Natural text as tokens and words: the written paragraphs, cut to one length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from rolecall.data.templates import texts
from rolecall.probes.aligner import Aligner, Encoded
from rolecall.probes.base import Positions
from rolecall.probes.text import NO_TEXT, UNKNOWN

SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z\"“(])")
LENGTH = 48
SHORT = "a passage shorter than 16 tokens"


@dataclass(frozen=True)
class Passage:
    """A stretch of natural text.

    Attributes:
        title: Of the paragraph it is from.
        token_ids: With the model's special tokens.
        words: Each whole word's letters and positions.
    """

    title: str
    token_ids: tuple[int, ...]
    words: tuple[tuple[str, Positions], ...]

    @property
    def positions(self) -> tuple[Positions, ...]:
        """Every word's positions, as an example wants them."""
        return tuple(positions for _, positions in self.words)


def passages(
    aligner: Aligner, *, n: int, seed: int
) -> tuple[tuple[Passage, ...], Mapping[str, int]]:
    """About n passages and what was dropped; all paragraphs, then again from later sentences.

    Each is cut to 48 tokens (or to the model's context) so that they run in equal batches.

    >>> from rolecall.probes.toy import toy_aligner
    >>> found, _ = passages(toy_aligner(), n=3, seed=0)
    >>> [len(passage.token_ids) for passage in found]
    [49, 49, 49]
    """
    if aligner.tokenizer is None:
        return (), {NO_TEXT: n}
    titles = Random(seed).sample(sorted(texts()), len(texts()))
    chosen = [(titles[i % len(titles)], i // len(titles)) for i in range(n)]
    encoded = aligner.encode_each([_from_sentence(texts()[t], later) for t, later in chosen])
    found: list[Passage] = []
    dropped: Counter[str] = Counter()
    for (title, _), one in zip(chosen, encoded, strict=True):
        if one.unknown:
            dropped[UNKNOWN] += 1
            continue
        passage = _cut(aligner, title, one)
        if len(passage.token_ids) < 16:
            dropped[SHORT] += 1
            continue
        found.append(passage)
    return tuple(found), dict(dropped)


def _from_sentence(text: str, later: int) -> str:
    starts = [0, *(m.end() for m in SENTENCE.finditer(text))]
    return text[starts[later % len(starts)] :]


def _cut(aligner: Aligner, title: str, encoded: Encoded) -> Passage:
    framed = aligner.start + (aligner.eos is not None)
    length = min(LENGTH, aligner.max_length - framed)
    inner = encoded.token_ids[aligner.start : len(encoded.token_ids) - (aligner.eos is not None)]
    end = aligner.start + min(length, len(inner))
    words = tuple((w, p) for w, p in aligner.spelled(encoded) if p[-1] < end)
    return Passage(title, aligner.frame(inner[:length]), words)
