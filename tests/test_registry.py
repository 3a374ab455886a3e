"""Which probes there are, and what a wrong name or a broken plugin costs."""

import importlib.util
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from rolecall.probes import registry
from rolecall.probes.base import Probe
from rolecall.probes.registry import BUILT_IN, PluginWarning, find

NAMES = {
    *("previous_token", "next_token", "current_token", "first_token", "delimiter", "bracket"),
    *("subject_verb", "verb_object", "determiner", "adjective", "auxiliary", "coreference"),
    *("rare_token", "duplicate_token", "induction"),
}


def test_every_role_of_the_design_is_built_in():
    assert {probe.name for probe in BUILT_IN} >= NAMES


def test_names_are_unique():
    names = [probe.name for probe in BUILT_IN]
    assert len(names) == len(set(names))


@pytest.mark.filterwarnings("ignore::rolecall.probes.registry.PluginWarning")
def test_a_misspelt_name_offers_the_nearest():
    with pytest.raises(ValueError, match=r"no role is named 'inductoin'. Did you mean 'induction'"):
        find(["inductoin"])


@pytest.mark.filterwarnings("ignore::rolecall.probes.registry.PluginWarning")
def test_find_keeps_the_order_of_known_not_of_asking():
    names = [probe.name for probe in find(["induction", "previous_token"])]
    assert names == ["previous_token", "induction"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module_anywhere:x", "ModuleNotFoundError"),
        ("rolecall.probes.registry:no_such_name", "AttributeError"),
        ("rolecall.probes.registry:GROUP", "is a str, not a Probe"),
        ("rolecall.probes.induction:induction", "the name 'induction' is taken by rolecall"),
    ],
)
def test_a_broken_plugin_costs_itself_and_a_warning(value, why):
    point = EntryPoint(name="bad", value=value, group=registry.GROUP)
    with pytest.warns(PluginWarning, match=why):
        assert registry._plugins([point]) == ()


@pytest.mark.skipif(
    importlib.util.find_spec("rolecall_second_token") is None,
    reason="install tests/plugin to walk a third party's way in",
)
def test_a_third_partys_probe_is_known_and_its_broken_neighbour_is_not():
    registry.known.cache_clear()
    with pytest.warns(PluginWarning, match="'broken'"):
        names = {probe.name for probe in registry.known()}
    assert "second_token" in names
    assert "broken" not in names


def named(name: str) -> Probe:
    """A probe of this name, otherwise as a built-in one is."""
    return replace(BUILT_IN[0], name=name)


@pytest.mark.parametrize("name", ["a", "second_token", "größe-2", "7b", "x" * 60])
def test_a_plain_name_is_taken(name):
    assert named(name).name == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "a/b", "..", "/a", "nsubj:pass", "a (b)", "a,b", "a;b", "a|b", "a b", "a\n", "\0"),
        *("_a", "-a", ".a", "a\\b", "x" * 61, "\u202ea"),
    ],
)
def test_a_name_that_is_not_plain_is_refused_with_the_rule(name):
    with pytest.raises(ValueError, match=r"letters, digits, _ and -.*at most 60.*rename it"):
        named(name)


def test_a_plugin_of_such_a_name_costs_itself_and_a_warning(tmp_path, monkeypatch):
    lines = (
        "from dataclasses import replace",
        "from rolecall.probes.registry import BUILT_IN",
        "bad = replace(BUILT_IN[0], name='nsubj:pass')",
    )
    (tmp_path / "plugin_of_a_bad_name.py").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint(name="bad", value="plugin_of_a_bad_name:bad", group=registry.GROUP)
    with pytest.warns(PluginWarning, match="letters, digits"):
        assert registry._plugins([point]) == ()
