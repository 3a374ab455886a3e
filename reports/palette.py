"""Colours, letters and strengths: how a role and a tier look in every figure and on the page.

The hue is the role's family (Okabe and Ito's colour-blind-safe set); roles of one family differ by
shade and by their two letters, so that nothing hangs on telling two greens apart, or on colour.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

ROLE_COLOURS = {
    "first_token": "#6F7C85",
    "previous_token": "#0072B2",
    "next_token": "#56B4E9",
    "current_token": "#3A86C8",
    "delimiter": "#E69F00",
    "bracket": "#A66F00",
    "subject_verb": "#009E73",
    "verb_object": "#43C59E",
    "determiner": "#00664A",
    "adjective": "#7DA82E",
    "auxiliary": "#3E8F9C",
    "subject_to_verb": "#2FA67F",
    "verb_to_object": "#66B79B",
    "determiner_to_noun": "#3B7F67",
    "adjective_to_noun": "#98B85C",
    "auxiliary_to_verb": "#6CA9B3",
    "coreference": "#CC79A7",
    "earlier_mention": "#E0A3C6",
    "antecedent_to_pronoun": "#B667A0",
    "rare_token": "#C9B400",
    "duplicate_token": "#F08C4A",
    "induction": "#D55E00",
}
OTHER_COLOURS = ("#7B61C4", "#A0527F", "#4E6A9E", "#8A6D5B", "#5F7F4F", "#B0567A")

LETTERS = {
    "first_token": "1t",
    "previous_token": "Pr",
    "next_token": "Nx",
    "current_token": "Cu",
    "delimiter": "Dl",
    "bracket": "Br",
    "subject_verb": "SV",
    "verb_object": "VO",
    "determiner": "Dt",
    "adjective": "Aj",
    "auxiliary": "Ax",
    "subject_to_verb": "sV",
    "verb_to_object": "vO",
    "determiner_to_noun": "dN",
    "adjective_to_noun": "aN",
    "auxiliary_to_verb": "aV",
    "coreference": "Co",
    "earlier_mention": "eM",
    "antecedent_to_pronoun": "aP",
    "rare_token": "Ra",
    "duplicate_token": "Du",
    "induction": "In",
}

TIER_STRENGTH = {"A": 1.0, "B": 0.72, "C": 0.42, "pattern only": 0.42, "D": 0.2, "E": 0.2}
GROUNDS = {"day": "#E6E9EC", "night": "#2A3037"}
"""What lies under a cell of the page, as its style sheet has it."""

PALE = "#E9EBED"
INK = "#1B1F23"


def role_colour(role: str) -> str:
    """The role's colour, `#RRGGBB`; a role from elsewhere has one that only its name decides."""
    if role in ROLE_COLOURS:
        return ROLE_COLOURS[role]
    return OTHER_COLOURS[zlib.crc32(role.encode()) % len(OTHER_COLOURS)]


def role_letters(roles: Iterable[str]) -> dict[str, str]:
    """Two letters a role, no two roles alike."""
    found: dict[str, str] = {}
    for role in sorted(set(roles), key=lambda name: (name not in LETTERS, name)):
        found[role] = next(c for c in _choices(role) if c not in found.values())
    return found


def _choices(role: str) -> Iterable[str]:
    if role in LETTERS:
        yield LETTERS[role]
    plain = [c for c in role if c.isalnum()] or ["?"]
    for letter in plain[1:]:
        yield plain[0].upper() + letter
    yield from (f"{plain[0].upper()}{i}" for i in range(10_000))


def blended(colour: str, strength: float, *, over: str = "#FFFFFF") -> str:
    """The colour laid over another with this opacity."""
    top, under = _channels(colour), _channels(over)
    mixed = (round(t * strength + u * (1 - strength)) for t, u in zip(top, under, strict=True))
    return "#" + "".join(f"{c:02X}" for c in mixed)


def text_colour(role: str) -> str:
    """The role's colour, darkened until it reads on white: a contrast of 4.5 and more."""
    shades = (blended("#000000", 0.05 * i, over=role_colour(role)) for i in range(21))
    return next(shade for shade in shades if 1.05 / (_luminance(shade) + 0.05) >= 4.5)


def ink_on(colour: str) -> str:
    """Black or white, whichever has more contrast on the colour (WCAG's relative luminance)."""
    return "#000000" if _luminance(colour) > 0.179 else "#FFFFFF"


def inks_on_cell(role: str, tier: str) -> dict[str, str]:
    """Black or white by day and by night, for letters on a cell that is as strong as its tier."""
    colour, strength = role_colour(role), TIER_STRENGTH.get(tier, 0.42)
    return {
        when: ink_on(blended(colour, strength, over=ground)) for when, ground in GROUNDS.items()
    }


def _luminance(colour: str) -> float:
    linear = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour))
    ]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
