"""The grammar: seeded English from the frames in `words/frames.csv`.

A frame is a sentence in Python's format syntax. A slot's name says what goes in, its digit whom it
is about, its specification the number (`rolecall.data.slots` lists them). `|` is a line break.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import repeat
from random import Random
from string import Formatter

from rolecall.data.coined import ENDINGS
from rolecall.data.emphasis import emphasis, place
from rolecall.data.lexicon import GROUPS
from rolecall.data.slots import PEOPLE, Cast, Slot, spoken

# how often a sentence is of each family, and how often a document says one sentence twice
SHARES = {
    "agreement": 64,
    "pronoun": 45,
    "brackets": 12,
    "determiner": 10,
    "verb_object": 8,
    "auxiliary": 16,
    "adjective": 4,
    "same_name": 20,
    "delimiters": 4,
    "listed": 28,
    "rare": 7,
    "free": 3,
    "reflexive": 36,
    "particle": 14,
    "tailed": 12,
    "described": 12,
    "timed": 16,
    "named": 72,
    "resolved": 54,
    "back": 18,
    "repair": 14,
    "epithet": 60,
    "nested": 32,
    "adjacent": 18,
    "recall": 24,
    "expressions": 8,
}
REPEATED = 0.2


def parse(frame: str) -> list[str | Slot]:
    """The frame's literal text and slots in order.

    Example:
        >>> parse("The {thing1:many} {are}")[1]
        Slot(kind='thing', index='1', spec='many', capital=False)
    """
    parts: list[str | Slot] = []
    for literal, name, spec, _ in Formatter().parse(frame):
        parts.append(literal)
        if name is not None:
            kind = name.rstrip("0123456789")
            parts.append(Slot(kind.lower(), name[len(kind) :], spec or "", kind[0].isupper()))
    return parts


def fill(
    frame: str,
    groups: Iterable[int],
    rng: Random,
    *,
    contrast: bool = False,
    emphatic: float = 0,
    strange: float = 0,
) -> str:
    """The frame as text.

    Args:
        frame: a sentence with slots.
        groups: the group of each content word in turn; `repeat(g)` keeps all in one.
        rng: source of all choices.
        contrast: whether referents 1 and 2 must differ in number.
        emphatic: how often a slot that can have one has an emphasis (`rolecall.data.emphasis`).
        strange: how often a slot that can have one has a word of no list (`rolecall.data.coined`).
    """
    either = rng.choice((("1", "2"), ("2", "1")))
    who = dict(zip("78", either, strict=True))
    parts = [
        replace(part, index=who.get(part.index, part.index)) if isinstance(part, Slot) else part
        for part in parse(frame)
    ]
    slots = [part for part in parts if isinstance(part, Slot)]
    fixed = {s.index: s.spec for s in slots if s.spec in ("one", "many") and s.index}
    fixed |= {s.index: "one" for s in slots if s.kind in PEOPLE}
    number = {i: fixed.get(i) or rng.choice(("one", "many")) for i in "123456789"}
    if contrast:
        number["2"] = "many" if number["1"] == "one" else "one"
    first = rng.choice("fm")
    gender = {i: rng.choice("fm") for i in "3456789"}
    gender |= {"1": first, "2": "m" if first == "f" else "f"}
    cast = Cast(rng, iter(groups), number, gender)
    text, before = "", dict[str, str]()
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        earlier = before.get(place(part), "")
        before.setdefault(place(part), text)
        alone = part.kind in ENDINGS and not part.index and not part.spec
        if strange and alone and rng.random() < strange:
            part = Slot("coined", "", ENDINGS[part.kind], part.capital)
        text += spoken(part, cast)
        if emphatic and rng.random() < emphatic:
            said = emphasis(part, cast, earlier)
            text += said and f" {said}"
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    return text.replace("|", "\n")


@cache
def frames(file: str = "frames") -> tuple[dict[str, str], ...]:
    """The rows of a file of frames: `frames` for training, the others for evaluation."""
    text = files("rolecall.data").joinpath("words", f"{file}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def document(
    seed: int | str,
    sentences: tuple[int, int] = (3, 6),
    *,
    emphatic: float = 0,
    strange: float = 0,
    listed: bool = False,
) -> str:
    """A training document: sentences from random frames, all words from one group.

    Args:
        seed: fixes the document.
        sentences: fewest and most sentences.
        emphatic: see `fill`.
        strange: see `fill`.
        listed: whether frames that ask for a word of no list are left out.

    Example:
        >>> document(3) == document(3)
        True
    """
    rng = Random(seed)
    groups = repeat(rng.randrange(GROUPS))
    by_family = _by_family(listed)
    families = rng.choices(list(SHARES), list(SHARES.values()), k=rng.randint(*sentences))
    said = [
        fill(rng.choice(by_family[family]), groups, rng, emphatic=emphatic, strange=strange)
        for family in families
    ]
    if rng.random() < REPEATED:
        said.insert(rng.randint(1, len(said)), rng.choice(said))
    return " ".join(said)


@cache
def _by_family(listed: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in frames():
        if not (listed and "{coined" in row["frame"].lower()):
            found.setdefault(row["family"], []).append(row["frame"])
    return found
