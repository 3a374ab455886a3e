"""The grammar: seeded English from the frames in `words/frames.csv`.

A frame is a sentence in Python's format syntax. A slot's name says what goes in, its digit whom it
is about, its specification the number:

| slot | becomes |
|---|---|
| `{person1}` `{animal1}` `{thing1}` `{place1}` `{being1}` | a noun, singular or plural (`:one`, `:many` to fix) |
| `{who1}` `{name1}` `{role1}` | a name or `the queen`; a name; `queen`: one person of known gender |
| `{he1}` `{him1}` `{his1}` `{himself1}` | the pronoun of that person |
| `{is1}` `{was1}` `{has1}` `{does1}` `{likes1}` `{sleeps1}` | a form that agrees with referent 1 |
| `{this1}` `{that1}` `{a1}` | a determiner that agrees with referent 1 |
| `{like}` `{liked}` `{taken}` `{sleep}` `{slept}` `{gone}` | base, past, participle; transitive, then intransitive |
| `{adj}` `{adv}` `{rare1}` `{prep}` | the same digit repeats the word |
| `{itself1}` | the reflexive of a noun, so that a verb's next word depends on its subject |
| `{off:v}` | the particle that belongs to verb `v`, so that an object's next word depends on its verb |
| `{det1}` … `{tail1}` | a determiner and, after its noun, the words that go with it |
| `{aux1}` `{goes1}` `{when1}` | an auxiliary, an intransitive verb in its form, the words that go with it |
| `{So}` `{aside}` | an opening word; a phrase that could be left out |
| `{word1}` | a word of degree, the same for the same digit |

Persons 1 and 2 are of opposite gender; the gender of others is free. A capital on a slot puts one
on its text. `|` is a line break. A verb's specification (`{likes1:v}`) ties verbs to one another.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import repeat
from random import Random
from string import Formatter

from rolecall.data.lexicon import GROUPS, Entry, Name, entries, words

NOUNS = ("person", "animal", "thing", "place")
PEOPLE = ("who", "name", "role")
PREPOSITIONS = ("near", "behind", "beside", "with", "above", "under", "by", "around", "below", "from")
AGREEING = {
    "is": ("is", "are"),
    "was": ("was", "were"),
    "has": ("has", "have"),
    "does": ("does", "do"),
    "this": ("this", "these"),
    "that": ("that", "those"),
}
SINGULAR = ("a", "one", "every", "each", "another")
PLURAL = ("many", "some", "several", "two", "three", "few", "all")
PRONOUNS = {
    "he": ("she", "he"),
    "him": ("her", "him"),
    "his": ("her", "his"),
    "himself": ("herself", "himself"),
}
OPENERS = ("so", "then", "now", "here", "there", "once", "also", "thus", "still", "yes,", "well,")
ASIDES = (
    "as they say", "or so it seems", "of course", "in the end", "at last", "I think", "we said so",
    "all day long", "not only for us", "as she said", "later in the day", "with her", "by the way",
    "if you please", "at least to me", "as he would say", "she and I", "all of them", "or not",
)  # fmt: skip
PARTICLES = ("away", "back", "off", "out", "up", "down")
DEGREES = ("so", "very", "too", "quite", "rather", "as", "almost", "nearly")
FREE = {"prep": PREPOSITIONS, "so": OPENERS, "aside": ASIDES}
# what follows a noun because of its determiner: tail, singular, plural
TAILS = (
    ("here", "this", "these"),
    ("there", "that", "those"),
    ("of sorts", "a", "some"),
    ("in question", "the", "the"),
    ("at home", "my", "my"),
    ("or other", "one", "several"),
)
# auxiliary (singular, plural), the form it asks of the verb, what follows because of it
AUXILIARIES = (
    ("has", "have", "participle", "by now"),
    ("had", "had", "participle", "by then"),
    ("will", "will", "base", "in time"),
    ("can", "can", "base", "at will"),
    ("did", "did", "base", "back then"),
    ("must", "must", "base", "or else"),
    ("should", "should", "base", "for once"),
)
# slot: kind of verb, form (`agree` picks the third person or the base)
VERBS = {
    "like": ("transitive", "base"),
    "likes": ("transitive", "agree"),
    "liked": ("transitive", "past"),
    "taken": ("transitive", "participle"),
    "sleep": ("intransitive", "base"),
    "sleeps": ("intransitive", "agree"),
    "slept": ("intransitive", "past"),
    "gone": ("intransitive", "participle"),
}


# how often a sentence is of each family, and how often a document says one sentence twice
SHARES = {
    "agreement": 28,
    "pronoun": 28,
    "brackets": 18,
    "determiner": 8,
    "verb_object": 6,
    "auxiliary": 9,
    "adjective": 4,
    "same_name": 6,
    "delimiters": 5,
    "rare": 7,
    "free": 4,
    "reflexive": 14,
    "particle": 10,
    "tailed": 9,
    "described": 8,
    "timed": 8,
    "named": 14,
    "back": 6,
    "repair": 5,
    "recall": 12,
    "expressions": 6,
}
REPEATED = 0.2


@dataclass(frozen=True)
class Slot:
    """A parsed slot: `{Who1}` is kind `who`, index `1`, capital."""

    kind: str
    index: str
    spec: str
    capital: bool


@dataclass
class Cast:
    """Who and what stand in one frame; filled as slots are met."""

    rng: Random
    groups: Iterator[int]
    number: dict[str, str]
    gender: dict[str, str]
    chosen: dict[tuple[str, str], Entry] = field(default_factory=dict)
    picked: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def pick(self, key: str, options: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        """The option under this key, picked on first use and different from the others."""
        if key not in self.picked:
            left = [option for option in options if option not in self.picked.values()]
            self.picked[key] = self.rng.choice(left)
        return self.picked[key]

    def draw(self, file: str, key: str, **wanted: str) -> Entry:
        """The entry under this key, drawn on first use and different from the others."""
        if key and (file, key) in self.chosen:
            return self.chosen[file, key]
        taken = set(self.chosen.values())
        pool = [entry for entry in words(file, next(self.groups), **wanted) if entry not in taken]
        entry = self.rng.choice(pool)
        self.chosen[file, key or f"#{len(self.chosen)}"] = entry
        return entry


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


def fill(frame: str, groups: Iterable[int], rng: Random, contrast: bool = False) -> str:
    """The frame as text.

    Args:
        frame: a sentence with slots (see the module).
        groups: the group of each content word in turn; `repeat(g)` keeps all in one.
        rng: source of all choices.
        contrast: whether referents 1 and 2 must differ in number.
    """
    parts = parse(frame)
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
    text = "".join(part if isinstance(part, str) else _word(part, cast) for part in parts)
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    return text.replace("|", "\n")


def _word(slot: Slot, cast: Cast) -> str:
    """The text of one slot."""
    text = _lower(slot, cast)
    return text[0].upper() + text[1:] if slot.capital else text


def _lower(slot: Slot, cast: Cast) -> str:
    plural = cast.number.get(slot.index, slot.spec or "one") == "many"
    kind = slot.kind
    if kind in AGREEING:
        return AGREEING[kind][plural]
    if kind == "a":
        return cast.rng.choice(PLURAL if plural else SINGULAR)
    if kind in PRONOUNS:
        return PRONOUNS[kind][cast.gender[slot.index] == "m"]
    if kind in FREE:
        return cast.rng.choice(FREE[kind])
    if kind in ("det", "tail"):
        return cast.pick(f"det{slot.index}", TAILS)[0 if kind == "tail" else 1 + plural]
    if kind == "word":
        return cast.pick(slot.index, tuple((word,) for word in DEGREES))[0]
    if kind in ("aux", "goes", "when"):
        *agreeing, form, tail = cast.pick(f"aux{slot.index}", AUXILIARIES)
        verb = cast.draw("verbs", f"goes{slot.index}", kind="intransitive")
        return {"aux": agreeing[plural], "goes": getattr(verb, form), "when": tail}[kind]
    if kind == "off":
        row = entries("verbs").index(cast.chosen["verbs", slot.spec])
        return PARTICLES[row // (2 * GROUPS) * 2 + row % 2]
    if kind == "itself":
        gender = cast.chosen["nouns", slot.index].gender
        return "themselves" if plural else {"f": "herself", "m": "himself"}.get(gender, "itself")
    if kind in VERBS:
        sort, form = VERBS[kind]
        verb = cast.draw("verbs", slot.spec, kind=sort)
        return getattr(verb, ("base" if plural else "third") if form == "agree" else form)
    if kind in PEOPLE:
        return _person(slot, cast)
    if kind in ("adj", "adv", "rare"):
        file = {"adj": "adjectives", "adv": "adverbs", "rare": "rare"}[kind]
        return cast.draw(file, slot.index).word
    if kind == "kin":
        noun = cast.draw("nouns", slot.index, kind="person", gender=cast.gender[slot.index])
        return noun.plural if plural else noun.singular
    if kind == "being":
        kind = cast.rng.choice(("person", "animal"))
    if kind in NOUNS:
        noun = cast.draw("nouns", slot.index, kind=kind)
        return noun.plural if plural else noun.singular
    raise ValueError(f"the frame asks for {slot.kind!r}, which is no slot of the grammar")


def _person(slot: Slot, cast: Cast) -> str:
    gender = cast.gender[slot.index]
    named = [cast.chosen.get((file, slot.index)) for file in ("names", "nouns")]
    entry = next((e for e in named if e is not None), None)
    if entry is None:
        file = {"name": "names", "role": "nouns"}.get(slot.kind)
        file = file or cast.rng.choice(("names", "names", "nouns"))
        entry = cast.draw(file, slot.index, gender=gender)
    if isinstance(entry, Name):
        return entry.name
    return entry.singular if slot.kind == "role" else f"the {entry.singular}"


@cache
def frames(file: str = "frames") -> tuple[dict[str, str], ...]:
    """The rows of a file of frames, `frames` for training or `heldout` for evaluation."""
    text = files("rolecall.data").joinpath("words", f"{file}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def document(seed: int | str, sentences: tuple[int, int] = (3, 6)) -> str:
    """A training document: sentences from random frames, all words from one group.

    Args:
        seed: fixes the document.
        sentences: fewest and most sentences.

    Example:
        >>> document(3) == document(3)
        True
    """
    rng = Random(seed)
    groups = repeat(rng.randrange(GROUPS))
    by_family: dict[str, list[str]] = {}
    for row in frames():
        by_family.setdefault(row["family"], []).append(row["frame"])
    families = rng.choices(list(SHARES), list(SHARES.values()), k=rng.randint(*sentences))
    said = [fill(rng.choice(by_family[family]), groups, rng) for family in families]
    if rng.random() < REPEATED:
        said.insert(rng.randint(1, len(said)), rng.choice(said))
    return " ".join(said)
