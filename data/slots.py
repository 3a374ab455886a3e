"""What the slots of a frame become.

| slot | becomes |
|---|---|
| `{person1}` `{animal1}` `{thing1}` `{place1}` | a noun; `:one` and `:many` fix its number |
| `{being1}` `{kin1}` | a person or an animal; a person of known gender |
| `{who1}` `{name1}` `{role1}` | a name or `the queen`; a name; `queen` |
| `{he1}` `{him1}` `{his1}` `{himself1}` | the pronoun of that person |
| `{is1}` `{was1}` `{has1}` `{does1}` `{likes1}` `{sleeps1}` | a form that agrees with referent 1 |
| `{this1}` `{that1}` `{a1}` | a determiner that agrees with referent 1 |
| `{like}` `{liked}` `{taken}` | a transitive verb's base, past and participle |
| `{sleep}` `{slept}` `{gone}` | the same of an intransitive verb |
| `{adj}` `{adv}` `{rare1}` | a word; the same digit repeats it |
| `{prep}` `{So}` `{aside}` | a preposition; an opening word; a phrase that could be left out |
| `{itself1}` | a noun's reflexive, so that a verb's next word depends on its subject |
| `{off:v}` | the particle of verb `v`, so that an object's next word depends on its verb |
| `{det1}` … `{tail1}` | a determiner and, after its noun, the words that go with it |
| `{aux1}` `{goes1}` `{when1}` | an auxiliary, a verb in its form, the words that go with it |
| `{word1}` | a word of degree, the same for the same digit |
| `{coined}` | a word of no list; `:ed` ends it so |
| `{open1}` … `{close1}` | a bracket or quote of some kind and what closes it |
| `{sep1}` | the mark between the parts of a list, the same for the same digit |

Persons 1 and 2 are of opposite gender; the gender of others is free. 7 and 8 are referents 1 and 2
in either order, so that their order does not tell who is meant. A capital on a slot puts one
on its text. A verb's specification (`{likes1:v}`) makes it the same verb wherever it stands.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from rolecall.data.coined import coined
from rolecall.data.lexicon import GROUPS, Entry, Name, Noun, Word, entries, words

NOUNS = ("person", "animal", "thing", "place")
PEOPLE = ("who", "name", "role")
PREPOSITIONS = (
    "near",
    "behind",
    "beside",
    "with",
    "above",
    "under",
    "by",
    "around",
    "below",
    "from",
)
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
SEPARATORS = (",", ";", ":")
BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"), ('"', '"'))
# what a digit keeps: one of these, another for another digit
KEPT = {"word": DEGREES, "sep": SEPARATORS}
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
        """The entry under this key, drawn on first use, if possible a new one."""
        if key and (file, key) in self.chosen:
            return self.chosen[file, key]
        taken = set(self.chosen.values())
        pool = words(file, next(self.groups), **wanted)
        entry = self.rng.choice([entry for entry in pool if entry not in taken] or pool)
        self.chosen[file, key or f"#{len(self.chosen)}"] = entry
        return entry

    def noun(self, key: str, **wanted: str) -> Noun:
        """The noun under this key, drawn like any entry."""
        entry = self.draw("nouns", key, **wanted)
        assert isinstance(entry, Noun)
        return entry


def spoken(slot: Slot, cast: Cast) -> str:
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
    if kind == "coined":
        return coined(slot.spec, cast.rng)
    if kind in ("det", "tail"):
        return cast.pick(f"det{slot.index}", TAILS)[0 if kind == "tail" else 1 + plural]
    if kind in KEPT:
        return cast.pick(f"{kind}{slot.index}", tuple((text,) for text in KEPT[kind]))[0]
    if kind in ("open", "close"):
        return cast.pick(f"open{slot.index}", BRACKETS)[kind == "close"]
    if kind in ("aux", "goes", "when"):
        *agreeing, form, tail = cast.pick(f"aux{slot.index}", AUXILIARIES)
        verb = cast.draw("verbs", f"goes{slot.index}", kind="intransitive")
        return {"aux": agreeing[plural], "goes": getattr(verb, form), "when": tail}[kind]
    if kind == "off":
        row = entries("verbs").index(cast.chosen["verbs", slot.spec])
        return PARTICLES[row // (2 * GROUPS) * 2 + row % 2]
    if kind == "itself":
        noun = cast.chosen["nouns", slot.index]
        assert isinstance(noun, Noun)
        own = {"f": "herself", "m": "himself"}.get(noun.gender, "itself")
        return "themselves" if plural else own
    if kind in VERBS:
        sort, form = VERBS[kind]
        verb = cast.draw("verbs", slot.spec, kind=sort)
        return getattr(verb, ("base" if plural else "third") if form == "agree" else form)
    if kind in PEOPLE:
        return _person(slot, cast)
    if kind in ("adj", "adv", "rare"):
        file = {"adj": "adjectives", "adv": "adverbs", "rare": "rare"}[kind]
        word = cast.draw(file, slot.index)
        assert isinstance(word, Word)
        return word.word
    if kind == "kin":
        noun = cast.noun(slot.index, kind="person", gender=cast.gender[slot.index])
        return noun.plural if plural else noun.singular
    if kind == "being":
        kind = cast.rng.choice(("person", "animal"))
    if kind in NOUNS:
        noun = cast.noun(slot.index, kind=kind)
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
    assert isinstance(entry, Noun)
    return entry.singular if slot.kind == "role" else f"the {entry.singular}"
