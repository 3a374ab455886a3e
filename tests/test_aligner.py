"""Character spans to token positions, for the four ways in which tokenizers write a blank."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rolecall.probes.aligner import WORD, Aligner, describe, id_aligner
from rolecall.probes.toy import toy_aligner

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SPECIALS = ["<s>", "</s>", "<unk>"]


def byte_level(*, prefix: bool = False) -> PreTrainedTokenizerFast:
    """As GPT-2 and Llama-3 have it: a blank is part of the token behind it, bytes for the rest."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("h", "e"), ("Ġ", "he"), ("S", "he"), ("Ġ", "She"), ("s", "t")]
    pieces = [*SPECIALS, *alphabet, *("".join(pair) for pair in merges)]
    model = models.BPE({piece: i for i, piece in enumerate(pieces)}, merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    return wrapped(tokenizer)


def sentencepiece_like() -> PreTrainedTokenizerFast:
    """As Llama-2 has it: `▁` for a blank and one before the text, bytes for what is unknown."""
    merges = [("h", "e"), ("S", "he"), ("▁", "She"), ("▁", "T")]
    pieces = [
        *SPECIALS,
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *LETTERS,
        *"▁.,!?()'\"",
        *("".join(pair) for pair in merges),
    ]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    return wrapped(tokenizer)


def word_piece() -> PreTrainedTokenizerFast:
    """As BERT has it: no blanks at all, `##` before a piece that goes on, lower case."""
    pieces = [*SPECIALS, *LETTERS, *(f"##{x}" for x in LETTERS), *".,!?()'\"", "she", "##he"]
    tokenizer = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return wrapped(tokenizer)


def wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


KINDS = {
    "bytes": byte_level(),
    "bytes-prefix": byte_level(prefix=True),
    "sentencepiece": sentencepiece_like(),
    "wordpiece": word_piece(),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def aligner_of(kind: str, *, causal: bool = True, bos: bool = True) -> Aligner:
    return reading(KINDS[kind], causal=causal, bos=bos)


def reading(
    tokenizer: PreTrainedTokenizerFast, *, causal: bool = True, bos: bool = True
) -> Aligner:
    first, last = 0 if bos else None, None if causal else 1
    return Aligner(tokenizer, len(tokenizer), causal, first, last, 512, ordinary=())


def spelled_at(aligner: Aligner, text: str, word: str, start: int = 0) -> str:
    """The letters under the tokens that the aligner finds for a word, joined."""
    encoded = aligner.encode(text)
    begin = text.index(word, start)
    spans = [encoded.offsets[p] for p in aligner.positions(encoded, begin, begin + len(word))]
    return "".join(text[left:right] for left, right in dict.fromkeys(spans))


@every_kind
def test_c36_a_word_keeps_all_its_pieces_and_only_the_meant_occurrence_counts(kind):
    aligner, text = aligner_of(kind), "Lily met Lily. She saw Alexander."
    encoded = aligner.encode(text)
    second = aligner.positions(encoded, 9, 13)
    assert second
    assert set(second).isdisjoint(aligner.positions(encoded, 0, 4))
    assert all(encoded.offsets[p][0] >= 9 and encoded.offsets[p][1] <= 13 for p in second)
    assert spelled_at(aligner, text, "Alexander") == "Alexander"


@every_kind
def test_c37_a_blank_in_the_offsets_moves_no_span(kind):
    aligner, text = aligner_of(kind), "Tom met Zoë. She said hello."
    encoded = aligner.encode(text)
    assert spelled_at(aligner, text, "She") == "She"
    before, she, after = (
        aligner.positions(encoded, *span) for span in ((8, 11), (13, 16), (17, 21))
    )
    assert before[-1] < she[0]
    assert she[-1] < after[0]
    assert aligner.positions(encoded, 12, 13) == (), "a blank alone has no token"


@every_kind
def test_c35_words_hold_all_their_pieces_once_and_nothing_else(kind):
    aligner = aligner_of(kind)
    encoded = aligner.encode("The queen's cuttlefish (all 12) slept, she said.")
    words = aligner.words(encoded)
    flat = [position for word in words for position in word]
    assert len(flat) == len(set(flat))
    visible = {p for p, (left, right) in enumerate(encoded.offsets) if left < right}
    assert set(flat) == visible - set(encoded.special)
    assert list(flat) == sorted(flat)


def test_c35_a_decoder_looks_from_the_last_piece_and_an_encoder_from_all():
    assert toy_aligner(causal=True).query((3, 4, 5)) == (5,)
    assert toy_aligner(causal=False).query((3, 4, 5)) == (3, 4, 5)


def test_words_that_share_a_token_count_as_one():
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2, "a": 3, "),": 4, "b": 5}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    aligner = reading(wrapped(tokenizer), bos=False)
    encoded = aligner.encode("a ), b")
    assert aligner.words(encoded) == ((0,), (1,), (2,))
    assert [word for word, _ in aligner.spelled(encoded)] == ["a", "),", "b"]


@every_kind
@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="abS he.,'()\"Zoë 1\n", max_size=40))
def test_every_word_is_where_its_span_says(kind, text):
    aligner = aligner_of(kind)
    encoded = aligner.encode(text)
    words = aligner.words(encoded)
    for match in WORD.finditer(text):
        positions = aligner.positions(encoded, *match.span())
        assert not positions or any(set(positions) <= set(word) for word in words)
    assert len(encoded.offsets) == len(encoded.token_ids)


@every_kind
def test_many_texts_are_read_as_each_alone(kind):
    aligner = aligner_of(kind)
    texts = ["She said hello.", "", "Tom (12) met Zoë"]
    assert aligner.encode_all(texts) == tuple(aligner.encode(text) for text in texts)


@every_kind
def test_c26_a_literal_start_token_is_not_added_a_second_time(kind):
    aligner = aligner_of(kind)
    with pytest.warns(UserWarning, match="'<s>' at the start"):
        encoded = aligner.encode("<s>She said")
    assert encoded.token_ids.count(0) == 1
    assert encoded.token_ids[0] == 0


def test_c27_without_bos_no_token_is_added_and_the_manifest_says_so():
    with_bos, without = aligner_of("bytes"), aligner_of("bytes", bos=False)
    text = "She said"
    assert with_bos.encode(text).token_ids == (0, *without.encode(text).token_ids)
    assert describe(with_bos)["bos_token"] == "<s>"
    assert describe(without)["bos"] is None
    json.dumps(describe(with_bos))


def test_an_encoder_gets_one_token_at_each_end():
    encoded = aligner_of("wordpiece", causal=False).encode("She said")
    assert encoded.token_ids[0] == 0
    assert encoded.token_ids[-1] == 1
    assert encoded.special == (0, len(encoded.token_ids) - 1)


@every_kind
def test_c39_a_literal_special_inside_is_told_and_is_no_word(kind):
    aligner = aligner_of(kind)
    with pytest.warns(UserWarning, match="'<s>' inside"):
        encoded = aligner.encode("a <s> b")
    inside = [p for p in encoded.special if p > 0]
    assert [encoded.token_ids[p] for p in inside] == [0]
    words = aligner.words(encoded)
    assert all(set(word).isdisjoint(encoded.special) for word in words)


@every_kind
@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_c41_an_empty_text_has_no_words(kind, text):
    aligner = aligner_of(kind)
    assert aligner.words(aligner.encode(text)) == ()


@pytest.mark.parametrize("wrong", [-1, 600])
def test_c42_an_id_outside_the_vocabulary_is_named(wrong):
    with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of 512"):
        id_aligner(512).frame((1, wrong, 403))


def test_an_unknown_word_is_marked():
    encoded = toy_aligner().encode("the xyzzy king")
    assert encoded.unknown == (2,)
    assert encoded.special == (0,)


def test_an_id_aligner_reads_no_text():
    with pytest.raises(ValueError, match="no tokenizer"):
        id_aligner(9).encode("a")


def test_the_tokenizer_hash_is_of_the_content():
    same, other = byte_level(), byte_level(prefix=True)
    hashes = [describe(reading(t))["tokenizer_hash"] for t in (byte_level(), same, other)]
    assert hashes[0] == hashes[1] != hashes[2]
