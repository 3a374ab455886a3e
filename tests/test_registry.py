"""Which probes there are, and what a wrong name or a broken plugin costs."""

import importlib.util
from importlib.metadata import EntryPoint

import pytest

from rolecall.probes import registry
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
