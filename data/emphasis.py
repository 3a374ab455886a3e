"""Words that the grammar sometimes puts behind a slot, and that only an earlier word explains.

| behind | comes | as in |
|---|---|---|
| a pronoun of a person | that person | `before she Mary slept` |
| a verb that agrees | its subject's reflexive | `the kings near the cat are themselves old` |
| a closing bracket | the word before the opening one | `my key [near the sea] key is old` |
| a person | whether they were named before | `Mary at first`, `Mary once more` |

English has only the second. All are here for one reason: a model looks at an antecedent, a subject
or an opening bracket where the next word depends on it, and plain text seldom does right there.
"""

import re

from rolecall.data.lexicon import Name, Noun
from rolecall.data.slots import PEOPLE, PRONOUNS, Cast, Slot, spoken

AGREEING = ("is", "was", "has", "likes", "sleeps")
FIRST, AGAIN = "at first", "once more"


def emphasis(slot: Slot, cast: Cast, before: str, known: frozenset[str]) -> str:
    """What may come behind a slot, empty if nothing fits.

    Args:
        slot: the slot that was just spoken.
        cast: who and what stand in the frame.
        before: what stood before the opening bracket of this index.
        known: indices of the persons named before this slot.

    Example:
        >>> emphasis(Slot("close", "1", "", False), cast=None, before="my key ", known=frozenset())
        'key'
    """
    if slot.kind == "close":
        words = re.findall(r"[A-Za-z]+", before)
        return words[-1] if words and words[-1].islower() else ""
    if slot.kind in PEOPLE:
        return AGAIN if slot.index in known else FIRST
    who = named(slot.index, cast)
    if slot.kind in PRONOUNS and slot.kind != "his" and who is not None:
        return spoken(Slot("who", slot.index, "", False), cast)
    if slot.kind in AGREEING and who is not None:
        kind = "himself" if isinstance(who, Name) else "itself"
        return spoken(Slot(kind, slot.index, "", False), cast)
    return ""


def named(index: str, cast: Cast) -> Name | Noun | None:
    """The name or noun of a referent, if it was spoken already."""
    found = cast.chosen.get(("names", index)) or cast.chosen.get(("nouns", index))
    return found if isinstance(found, Name | Noun) else None
