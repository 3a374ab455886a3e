"""Which probes there are: the built-in ones by import, other people's by entry point."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from rolecall.probes.adjective import adjective, adjective_to_noun
from rolecall.probes.auxiliary import auxiliary, auxiliary_to_verb
from rolecall.probes.base import Probe
from rolecall.probes.bracket import bracket
from rolecall.probes.coreference import (
    antecedent_to_pronoun,
    coreference,
    earlier_mention,
)
from rolecall.probes.current_token import current_token
from rolecall.probes.delimiter import delimiter
from rolecall.probes.determiner import determiner, determiner_to_noun
from rolecall.probes.duplicate_token import duplicate_token
from rolecall.probes.first_token import first_token
from rolecall.probes.induction import induction
from rolecall.probes.next_token import next_token
from rolecall.probes.previous_token import previous_token
from rolecall.probes.rare_token import rare_token
from rolecall.probes.subject_verb import subject_to_verb, subject_verb
from rolecall.probes.verb_object import verb_object, verb_to_object

GROUP = "rolecall.probes"

BUILT_IN: tuple[Probe, ...] = (
    previous_token,
    next_token,
    current_token,
    first_token,
    delimiter,
    bracket,
    subject_verb,
    verb_object,
    determiner,
    adjective,
    auxiliary,
    coreference,
    earlier_mention,
    rare_token,
    duplicate_token,
    induction,
    subject_to_verb,
    verb_to_object,
    determiner_to_noun,
    adjective_to_noun,
    auxiliary_to_verb,
    antecedent_to_pronoun,
)


class PluginWarning(UserWarning):
    """A third party's probe could not be used; everything else goes on."""


@cache
def known() -> tuple[Probe, ...]:
    """All probes: the built-in ones in their order, then entry points by name.

    A plugin that cannot be loaded, is no `Probe`, or takes a name in use is left out with a
    `PluginWarning`.
    """
    return BUILT_IN + _plugins(tuple(entry_points(group=GROUP)))


def find(names: Iterable[str]) -> tuple[Probe, ...]:
    """The probes of these names, in the order of `known()`; all of them for no names.

    Raises:
        ValueError: A name is unknown; the message offers the nearest one.
    """
    by_name = {probe.name: probe for probe in known()}
    wanted = list(names)
    for name in wanted:
        if name not in by_name:
            raise ValueError(_miss(name, tuple(by_name)))
    return tuple(p for p in known() if p.name in wanted) if wanted else known()


def _miss(name: str, known_names: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known_names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"no role is named {name!r}.{hint} Known: {', '.join(known_names)}"


def _plugins(points: Iterable[EntryPoint]) -> tuple[Probe, ...]:
    taken = {probe.name: "rolecall" for probe in BUILT_IN}
    found: list[Probe] = []
    for point in sorted(points, key=lambda p: (p.name, p.value)):
        problem, plugin = _load(point)
        if plugin is not None and plugin.name in taken:
            problem = f"the name {plugin.name!r} is taken by {taken[plugin.name]}"
        if problem or plugin is None:
            text = f"plugin {point.name!r} ({point.value}) is left out: {problem}"
            warnings.warn(text, PluginWarning, stacklevel=3)
            continue
        taken[plugin.name] = point.value
        found.append(plugin)
    return tuple(found)


def _load(point: EntryPoint) -> tuple[str, Probe | None]:
    try:
        loaded = point.load()
    except Exception as error:  # a plugin may fail in any way, and must cost only itself
        return f"{type(error).__name__}: {error}", None
    if not isinstance(loaded, Probe):
        return f"it is a {type(loaded).__name__}, not a Probe; use @probe", None
    return "", loaded
