"""A toy tokenizer made in memory: one word, one token. For docstring examples and tests."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rolecall.data.lexicon import forms
from rolecall.data.templates import files_of_templates, templates, texts
from rolecall.probes.aligner import WORD, Aligner
from rolecall.probes.sentences import SLOT

SPECIALS = ("<s>", "</s>", "<unk>")
FUNCTION_WORDS = (
    "the a this these that those another some each every my your his her our their its one two "
    "she he it we they you I him them us me himself herself who whom which what where when why how "
    "is are was were has have had will would can could should may must did do does be not and or "
    "but if as so then now here there"
)


@cache
def toy_aligner(*, causal: bool = True, pieces: bool = False, bos: bool = True) -> Aligner:
    """An aligner whose tokens are whole words, or with `pieces`, four letters and the rest.

    Every word of the crafted data is in its vocabulary.

    >>> aligner = toy_aligner()
    >>> aligner.encode("the old king").offsets
    ((0, 0), (0, 3), (4, 7), (8, 12))
    >>> toy_aligner(causal=False, pieces=True).words(toy_aligner(pieces=True).encode("the kings"))
    ((1,), (2, 3))
    """
    tokenizer = _tokenizer(pieces)
    first, last, _ = range(len(SPECIALS))
    return Aligner(
        tokenizer=tokenizer,
        d_vocab=len(tokenizer),
        causal=causal,
        bos=first if bos else None,
        eos=None if causal else last,
        max_length=256,
        ordinary=tuple(sorted(i for t, i in tokenizer.get_vocab().items() if t.isalnum())),
    )


@cache
def _tokenizer(pieces: bool) -> PreTrainedTokenizerFast:
    words = sorted(_words())
    tokens = _in_pieces(words) if pieces else words
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*SPECIALS, *tokens]))}
    model = models.WordPiece if pieces else models.WordLevel
    tokenizer = Tokenizer(model(vocabulary, unk_token="<unk>"))
    splits = [pre_tokenizers.Punctuation(), pre_tokenizers.WhitespaceSplit()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def _words() -> set[str]:
    crafted = [template for name in files_of_templates() for template in templates(name)]
    spoken = [s for t in crafted for s in (t.text, t.twin, t.answer, t.foil)]
    # Slots give the lexicon's words, which are taken below; `{the|target}` gives a word itself.
    literal = [SLOT.sub(lambda m: "" if "." in m[1] else m[1], s) for s in spoken]
    said = [*texts().values(), *literal]
    return {
        *(word for text in said for word in WORD.findall(text) if not word.isspace()),
        *(form for form, _ in forms()),
        *FUNCTION_WORDS.split(),
    }


def _in_pieces(words: Iterable[str]) -> list[str]:
    letters = {letter for word in words for letter in word}
    long = [word for word in words if len(word) > 4]
    return [
        *(word for word in words if len(word) <= 4),
        *(word[:4] for word in long),
        *(f"##{word[4:]}" for word in long),
        *(f"##{letter}" for letter in letters),
    ]
