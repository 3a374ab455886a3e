"""Words of no list: `brelled`, `fompily`.

A model that only ever met the words of its lists makes of a sentence with a new word what it likes.
Readers bring new words; so the grammar does too, where nothing depends on them.
"""

from random import Random

from rolecall.data.lexicon import group_of

ONSETS = ("b", "bl", "br", "c", "cl", "d", "dr", "f", "fr", "g", "gl", "gr", "h", "j", "k", "l")
ONSETS += ("m", "n", "p", "pl", "pr", "r", "s", "sh", "sk", "sn", "st", "t", "tr", "v", "w", "z")
VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "oo", "ou")
CODAS = ("b", "ck", "d", "ft", "g", "ll", "m", "n", "nk", "nt", "p", "r", "sk", "sp", "st", "t")
# the ending by which a slot's word shows what it is; other slots take no coined word
ENDINGS = {"liked": "ed", "slept": "ed", "taken": "ed", "gone": "ed", "adv": "ly", "adj": ""}
ENDINGS |= {"like": "", "sleep": "", "prep": "", "so": "", "coined": ""}


def coined(ending: str, rng: Random) -> str:
    """A word in none of the lists: a syllable or two and an ending, two where there is none.

    One syllable alone could be a function word, such as `him`.

    Example:
        >>> coined("ed", Random(1))
        'clufted'
    """
    while True:
        syllables = rng.choice((1, 2)) if ending else 2
        word = "".join(
            rng.choice(part) for _ in range(syllables) for part in (ONSETS, VOWELS, CODAS)
        )
        if group_of(word + ending) is None:
            return word + ending
