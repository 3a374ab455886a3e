"""The words of the crafted texts, and the eight groups that keep training and probing apart.

Every content word belongs to one of `GROUPS` groups: `(row in its file // 2) % GROUPS`. Two
neighbouring rows share a group because names and gendered nouns alternate feminine and masculine;
so every group holds both genders and every kind.

A training document (`rolecall.data.grammar`) draws **all** its content words from **one** group.
A probe example draws each content word from a **different** group. So no pair of content words of
a probe stands together in any training document: a head that finds the right word there cannot
have learned the pair by heart.

Content words are those of the word lists in `words/`; all other words of the frames (articles,
pronouns, auxiliaries, prepositions, openers) are function words and belong to no group.
"""

import csv
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import cache
from importlib.resources import files

GROUPS = 8


@dataclass(frozen=True)
class Name:
    """A first name of one gender, `f` or `m`."""

    name: str
    gender: str


@dataclass(frozen=True)
class Noun:
    """A countable noun; `kind` is person, animal, thing or place, `gender` f, m or empty."""

    singular: str
    plural: str
    kind: str
    gender: str


@dataclass(frozen=True)
class Verb:
    """A verb with its forms; `kind` is transitive or intransitive."""

    base: str
    third: str
    past: str
    participle: str
    kind: str


@dataclass(frozen=True)
class Word:
    """A word that has one form: an adjective, an adverb, a rare noun."""

    word: str


Entry = Name | Noun | Verb | Word

FILES: dict[str, type[Entry]] = {
    "names": Name,
    "nouns": Noun,
    "verbs": Verb,
    "adjectives": Word,
    "adverbs": Word,
    "rare": Word,
}


@cache
def entries(file: str) -> tuple[Entry, ...]:
    """Every entry of one word list, in file order.

    Args:
        file: the list's name without ending, one of `FILES`.

    Raises:
        ValueError: no list of that name.

    Example:
        >>> entries("names")[0]
        Name(name='Mary', gender='f')
    """
    if file not in FILES:
        raise ValueError(f"no word list {file!r}; known: {', '.join(FILES)}")
    text = files("rolecall.data").joinpath("words", f"{file}.csv").read_text(encoding="utf-8")
    return tuple(FILES[file](**row) for row in csv.DictReader(text.splitlines()))


@cache
def words(file: str, group: int | None = None, **wanted: str) -> tuple[Entry, ...]:
    """The entries of one list that are in a group and have the wanted fields.

    Args:
        file: the list's name, one of `FILES`.
        group: 0 … `GROUPS` − 1, or None for all groups.
        **wanted: field values to ask for, such as `kind="person"` or `gender="f"`.

    Raises:
        ValueError: nothing in the list fits.

    Example:
        >>> words("nouns", 0, kind="person", gender="f")[0].singular
        'queen'
    """
    found = tuple(
        entry
        for row, entry in enumerate(entries(file))
        if (group is None or row // 2 % GROUPS == group)
        and all(getattr(entry, field) == value for field, value in wanted.items())
    )
    if not found:
        raise ValueError(f"no word in {file} has group={group} and {wanted}")
    return found


def forms() -> Iterator[tuple[str, int]]:
    """Yields every form of every content word with its group.

    Example:
        >>> dict(forms())["queens"]
        0
    """
    kinds = {"person", "animal", "thing", "place", "transitive", "intransitive", "f", "m", ""}
    for file in FILES:
        for row, entry in enumerate(entries(file)):
            for form in astuple(entry):
                if form not in kinds:
                    yield form, row // 2 % GROUPS


@cache
def _groups() -> dict[str, int]:
    return dict(forms())


def group_of(form: str) -> int | None:
    """The group of a content word's form, None for a function word.

    Example:
        >>> group_of("Mary"), group_of("queens"), group_of("the")
        (0, 0, None)
    """
    return _groups().get(form)
