"""Words that the grammar sometimes puts behind a slot, and that only an earlier word explains.

| behind | comes | as in |
|---|---|---|
| a pronoun of a person | that person | `before she Mary slept` |
| a verb | its subject's reflexive | `the kings near the cat are themselves old` |
| a closing bracket | the word before the opening one | `my key [near the sea] key is old` |
| a name said again | the word before its first mention | `kind Mary slept, and Mary kind ran` |

English has only the second. All are here for one reason: a model looks at an antecedent, a subject,
an opening bracket or an earlier mention where the next word depends on it, and plain text seldom
does right there.
"""

import re

from rolecall.data.lexicon import Name, Noun
from rolecall.data.slots import PEOPLE, PRONOUNS, Cast, Slot, spoken

LEANING = ("is", "was", "has", "likes", "sleeps", "liked", "slept")


def emphasis(slot: Slot, cast: Cast, before: str) -> str:
    """What may come behind a slot, empty if nothing fits.

    Args:
        slot: the slot that was just spoken.
        cast: who and what stand in the frame.
        before: what stood before the opening bracket, or before the first mention of this name;
            empty at the first mention itself.

    Example:
        >>> emphasis(Slot("close", "1", "", False), cast=None, before="my key ")
        'key'
    """
    if slot.kind == "close":
        return _last_word(before)
    who = _named(slot.index, cast)
    if slot.kind in PEOPLE:
        return _last_word(before) if isinstance(who, Name) else ""
    if slot.kind in PRONOUNS and slot.kind != "his" and who is not None:
        return spoken(Slot("who", slot.index, "", False), cast)
    if slot.kind in LEANING and who is not None:
        kind = "himself" if isinstance(who, Name) else "itself"
        return spoken(Slot(kind, slot.index, "", False), cast)
    return ""


def place(slot: Slot) -> str:
    """The name of what a slot opens, closes or speaks of, under which is kept what stood before."""
    if slot.kind in ("open", "close"):
        return f"bracket{slot.index}"
    return f"person{slot.index}" if slot.kind in PEOPLE else ""


def _last_word(text: str) -> str:
    found = re.search(r"([A-Za-z]+) $", text)
    return found[1].lower() if found else ""


def _named(index: str, cast: Cast) -> Name | Noun | None:
    # a referent has neither before it is spoken
    found = cast.chosen.get(("names", index)) or cast.chosen.get(("nouns", index))
    return found if isinstance(found, Name | Noun) else None
