"""Planted heads of syntax and coreference, the helpers they read and their impostors.

Helpers note in the stream what a word's left context says of it: whether it stands in an aside
(`who`, `as`, `not` … opens one, a comma closes it), whether it is the object of what stands two
words before it. The heads proper read those notes, so none of them is a rule of distance alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from rolecall.analyses.planted_heads import SHARP, Head, Match, Move, resting
from rolecall.analyses.planted_roles import (
    PULL,
    STEP,
    Maker,
    at_offset,
    nearest,
    total,
)
from rolecall.analyses.planted_space import Space
from rolecall.analyses.planted_weights import Geometry


def aside(space: Space, geometry: Geometry) -> Head:
    """A helper: notes at a word whether the last mark before it opened an aside."""
    asking = total(space, "adjective", "determiner", "auxiliary", "verb", "noun")
    marks = Match(asking, total(space, "opens", "closes"), 3 * PULL)
    # Before a noun "that" is a determiner, so what stands in a noun's phrase does not ask for it.
    clauses = Match(total(space, "auxiliary", "verb", "noun"), space["relative"], 3 * PULL)
    head = Head("aside", None, (marks, clauses, resting(space, 2 * PULL)), recency=STEP)
    return head.writing(Move(total(space, "opens", "relative"), space["aside"]))


def governed(space: Space, geometry: Geometry) -> Head:
    """A helper: notes at a word whether a verb or a preposition stands two words before it."""
    head = at_offset("governed", 2, None)(space, geometry)
    return head.writing(Move(total(space, "verb", "preposition"), space["object"]))


def main_clause(role: str, query: str, key: str) -> Maker:
    """A head that looks from a word to the nearest of a kind that is not in an aside."""

    def make(space: Space, geometry: Geometry) -> Head:
        found = Match(space[query], space[key], 6 * PULL)
        away = Match(space[query], space["aside"], -2 * PULL)
        rest = resting(space, 3 * PULL)
        return Head(role, role, (found, away, rest), recency=STEP, layer=1)

    return make


def subject_verb(space: Space, geometry: Geometry) -> Head:
    """Looks from a verb to the noun that agrees with it, before that to one that is no object."""
    found = Match(space["verb"], space["noun"], 8 * PULL)
    one = Match(space["present_singular"], space["singular"] - space["plural"], PULL)
    many = Match(space["present_plural"], space["plural"] - space["singular"], PULL)
    free = Match(space["verb"], space["object"], -PULL)
    matches = (found, one, many, free, resting(space, 4 * PULL))
    return Head("subject_verb", "subject_verb", matches, recency=STEP / 2, layer=1)


def verb_object(space: Space, geometry: Geometry) -> Head:
    """Looks from a noun to the last verb with an object that is in an aside if the noun is."""
    found = Match(space["noun"], space["transitive"], 6 * PULL)
    away = Match(space["noun"], space["aside"], -2 * PULL)
    both = Match(space["aside"], space["aside"], 4 * PULL)
    matches = (found, away, both, resting(space, 2 * PULL))
    return Head("verb_object", "verb_object", matches, recency=STEP, layer=1)


def coreference(space: Space, geometry: Geometry) -> Head:
    """Looks from a pronoun to who has its gender, from a name to its earlier mentions."""
    she = Match(space["she"], space["feminine"], 38 * SHARP)
    he = Match(space["he"], space["masculine"], 38 * SHARP)
    same = Match(space["named"], space["named"], 38 * SHARP)
    matches = (she, he, same, resting(space, 20 * SHARP))
    return Head("coreference", "coreference", matches, shun=20 * SHARP)


def nearest_person(space: Space, geometry: Geometry) -> Head:
    """The impostor of coreference: looks from a pronoun to the nearest person."""
    found = Match(total(space, "she", "he"), space["person"], 3 * PULL)
    return Head("nearest_person", None, (found, resting(space, 2 * PULL)), recency=STEP)


SYNTAX: Mapping[str, Maker] = {
    "aside": aside,
    "governed": governed,
    "subject_verb": subject_verb,
    "verb_object": verb_object,
    "determiner": main_clause("determiner", "noun", "determiner"),
    "adjective": main_clause("adjective", "noun", "adjective"),
    "auxiliary": main_clause("auxiliary", "verb", "auxiliary"),
    "coreference": coreference,
    "nearest_noun": nearest("nearest_noun", "verb", "noun"),
    "nearest_verb": nearest("nearest_verb", "noun", "verb"),
    "nearest_determiner": nearest("nearest_determiner", "noun", "determiner"),
    "nearest_adjective": nearest("nearest_adjective", "noun", "adjective"),
    "nearest_auxiliary": nearest("nearest_auxiliary", "verb", "auxiliary"),
    "nearest_person": nearest_person,
}
