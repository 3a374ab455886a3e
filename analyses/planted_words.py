"""What a planted model knows of its words: class, gender, number, rarity, which mark it is.

One number a word and feature, read from rolecall's own lexicon and a short table of function
words; a word that is in neither has an identity and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rolecall.data.lexicon import Name, Noun, Verb, entries
from rolecall.probes.frequency import zipf

FUNCTION: Mapping[str, str] = {
    "determiner": "the a an this that these those every each some any no another "
    "his her its their my our your",
    "preposition": "near behind beside with above under by around below from of to in on at for "
    "over between beyond against along inside outside across into onto toward towards about",
    "relative": "that who which whom whose",
    "auxiliary": "is are was were has have had do does did will would can could may might must "
    "shall should",
    "conjunction": "and or but because while when if so although since until after before as",
    "pronoun": "he she him her his hers himself herself they them it we you i me us",
    "delimiter": ". , ; : ! ? \n -",
    "frequent": "the a an of to and in is was , .",
    # Words that open an aside, and those that close one.
    "opens": "as not so said says like if least do unlike though",
    "closes": ", but only or",
}
PRONOUNS: Mapping[str, str] = {
    "she": "she her hers herself",
    "he": "he him his himself",
}
BRACKETS = ("()", "[]")
MASK = "<mask>"
"""What an encoder reads where it is asked: here like "she", and like a verb in the singular."""


def features(words: Sequence[str]) -> dict[str, Float[Tensor, "word 1"]]:
    """Feature → its value for each word, between −1 and 1.

    Example:
        >>> features(["queen", "the"])["noun"].flatten().tolist()
        [1.0, 0.0]
    """
    known = lexicon()
    table = {name: torch.zeros(len(words), 1) for name in FEATURES}
    for i, word in enumerate(words):
        marks = dict.fromkeys(known.get(word) or known.get(word.lower(), ()), 1.0)
        # "So" at the start of a sentence opens no aside.
        marks = {m: v for m, v in marks.items() if m != "opens" or word.islower()}
        if word.isalpha() and (marks.keys() & CONTENT or not marks):
            marks["rarity"] = 1 - zipf(word) / 8
        for name, value in marks.items():
            table[name][i] = value
    return table


CONTENT = {"noun", "name", "verb", "adjective", "adverb", "rare"}
FEATURES = (
    *sorted(CONTENT),
    *FUNCTION,
    *PRONOUNS,
    *("feminine", "masculine", "singular", "plural"),
    *("person", "transitive", "present_singular", "present_plural"),
    *(f"{side}{kind}" for kind in range(len(BRACKETS)) for side in ("open", "close")),
    "rarity",
)


def lexicon() -> dict[str, tuple[str, ...]]:
    """Word → its features that are either there or not."""
    found: dict[str, set[str]] = {}

    def mark(word: str, *names: str) -> None:
        found.setdefault(word, set()).update(names)

    for kind, listed in (*FUNCTION.items(), *PRONOUNS.items()):
        for word in listed.split(" "):
            mark(word, kind)
    for kind, (opening, closing) in enumerate(BRACKETS):
        mark(opening, f"open{kind}")
        mark(closing, f"close{kind}")
    for name in ("she", "verb", "present_singular"):
        mark(MASK, name)
    gender = {"f": ("feminine",), "m": ("masculine",), "": ()}
    for entry in (*entries("names"), *entries("nouns"), *entries("verbs")):
        if isinstance(entry, Name):
            mark(entry.name, "name", "person", "singular", *gender[entry.gender])
        if isinstance(entry, Noun):
            person = ("person",) if entry.kind == "person" else ()
            mark(entry.singular, "noun", "singular", *person, *gender[entry.gender])
            mark(entry.plural, "noun", "plural", *person, *gender[entry.gender])
        if isinstance(entry, Verb):
            kind = ("transitive",) if entry.kind == "transitive" else ()
            for form in (entry.base, entry.third, entry.past, entry.participle):
                mark(form, "verb", *kind)
            mark(entry.third, "present_singular")
            mark(entry.base, "present_plural")
    for file in ("adjectives", "adverbs", "rare"):
        for entry in entries(file):
            name = {"adjectives": "adjective", "adverbs": "adverb", "rare": "rare"}[file]
            mark(entry.word, name)  # pyright: ignore[reportAttributeAccessIssue]
    return {word: tuple(sorted(names)) for word, names in found.items()}
