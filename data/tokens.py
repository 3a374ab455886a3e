"""The embedded model's tokenizer: byte-level BPE whose common stems are one token.

Rare and coined words stay out of its training text, so they come apart into pieces, as such words
do in real tokenizers.
"""

import re
from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from rolecall.data.grammar import document
from rolecall.data.lexicon import Noun, Verb, Word, entries, forms

BOS, EOS = "<bos>", "<eos>"
VOCAB = 2050
WEIGHT = 200


def pieces() -> str:
    """The pattern that cuts text before merging: words with their blank, single marks, regular -s.

    A regular plural or third person is its stem and `s`: a model this small then learns number once
    and not anew for each word. Marks stand alone, for `."` as one token would hide the quote.
    """
    nouns = [entry for entry in entries("nouns") if isinstance(entry, Noun)]
    verbs = [entry for entry in entries("verbs") if isinstance(entry, Verb)]
    stems = {noun.singular for noun in nouns if noun.plural == f"{noun.singular}s"}
    stems |= {verb.base for verb in verbs if verb.third == f"{verb.base}s"}
    longest_first = "|".join(sorted(stems, key=lambda stem: (-len(stem), stem)))
    ending = r"s(?![A-Za-z])"
    return rf"Ġ?(?i:{longest_first})(?={ending})|(?<=[a-z]){ending}|Ġ?[A-Za-z]+|Ġ?[^A-Za-zĠ]"


def train_tokenizer(seed: int, vocab: int = VOCAB, texts: int = 3000) -> PreTrainedTokenizerFast:
    """A tokenizer trained on the grammar's text, which puts one BOS before every text.

    Args:
        seed: fixes the text.
        vocab: number of tokens.
        texts: number of documents read.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
            pre_tokenizers.Split(Regex(pieces()), "isolated"),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[BOS, EOS],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    bpe.train_from_iterator(_text(seed, texts), trainer)
    bpe.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single=f"{BOS} $A",
                pair=f"{BOS} $A {BOS} $B:1",
                special_tokens=[(BOS, bpe.token_to_id(BOS))],
            ),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token=BOS, eos_token=EOS, pad_token=EOS, model_max_length=256
    )


def _text(seed: int, texts: int) -> Iterator[str]:
    """Yields documents without their rare words, then every common word many times over."""
    rare = {entry.word for entry in entries("rare") if isinstance(entry, Word)}
    known = re.compile(rf"\b({'|'.join(sorted(rare))})\b")
    common = dict.fromkeys(form for form, _ in forms() if form not in rare)
    for number in range(texts):
        said = known.sub("", document(f"{seed}:words:{number}", listed=True))
        common |= dict.fromkeys(re.findall(r"[A-Za-z]+", said))
        yield said
    for word in common:
        yield " ".join([word] * WEIGHT)
