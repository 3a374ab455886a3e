"""The examples in docstrings run, and the README keeps what it promises."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import rolecall.analyses
import rolecall.data
import rolecall.probes
import rolecall.reports

ROOT = Path(__file__).resolve().parents[1]
MODULES = [
    module.name
    for package in (rolecall.data, rolecall.probes, rolecall.analyses, rolecall.reports)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name):
    assert importlib.import_module(name).__doc__


def test_every_data_set_shows_itself():
    from rolecall.probes.registry import BUILT_IN

    for probe in BUILT_IN:
        assert ">>>" in (probe.dataset.__doc__ or ""), probe.name


def test_files_the_readme_names_are_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
