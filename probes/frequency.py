"""How frequent a word is in English: Zipf values, log10 of occurrences in a thousand million."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

# The list's commonest words, which carry grammar: "there" is 6.3, "people" 6.2, "house" 5.7.
GRAMMAR = 6.0


@cache
def zipf(word: str) -> float:
    """The word's Zipf frequency, 0 for a word that the list does not have.

    Source: the `wordfreq` package's English list (Speer 2022), see its documentation.

    >>> zipf("the") > zipf("lamp") > zipf("trebuchet")
    True
    """
    # Here, not above: the list takes a moment to load and most commands never ask for it.
    from wordfreq import zipf_frequency

    return zipf_frequency(word.lower(), "en")


def is_content(word: str) -> bool:
    """True for words of four letters or more that are not among the commonest.

    >>> is_content("harbor"), is_content("there"), is_content("oak")
    (True, False, False)
    """
    return word.isalpha() and len(word) >= 4 and zipf(word) < GRAMMAR


def rarest(words: Sequence[str]) -> int:
    """The place of the least frequent word, the last one of equals.

    >>> rarest(["the", "halberd", "lamp"])
    1
    """
    return min(range(len(words)), key=lambda i: (zipf(words[i]), -i))
