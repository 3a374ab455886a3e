"""The crafted sentences of each role, read from `templates/*.yaml`.

A template is a sentence with slots. `{a.singular|target}` is the singular of the word drawn for
slot `a`, marked as the target; `{the|target}` is the word `the` itself, marked. A twin is the same
sentence with one thing changed so that the mark moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import yaml


@dataclass(frozen=True)
class Template:
    """A sentence with slots.

    Attributes:
        id: Unique within its file.
        text: The sentence.
        twin: The sentence in which another word is the right one; empty if there is none.
        slots: Slot → the list it draws from and what it asks for, such as `nouns person`.
        answer: What should follow (task templates only).
        foil: What should not; in the twin it is the other way round.
    """

    id: str
    text: str
    twin: str = ""
    slots: Mapping[str, str] = field(default_factory=dict)
    answer: str = ""
    foil: str = ""


def _read(name: str) -> object:
    text = files("rolecall.data").joinpath(name).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def templates(role: str) -> tuple[Template, ...]:
    """The templates of a role, in file order.

    Raises:
        ValueError: There is no such file.

    Example:
        >>> templates("determiner")[0].slots["o"]
        'nouns thing'
    """
    try:
        rows = _read(f"templates/{role}.yaml")
    except FileNotFoundError:
        raise ValueError(f"no templates for {role!r}; see the files in data/templates") from None
    assert isinstance(rows, list)
    return tuple(Template(**row) for row in rows)


@cache
def files_of_templates() -> tuple[str, ...]:
    """The names that `templates` takes, sorted.

    Example:
        >>> "determiner" in files_of_templates()
        True
    """
    folder = files("rolecall.data").joinpath("templates")
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".yaml")))


@cache
def texts() -> Mapping[str, str]:
    """Short natural paragraphs on many subjects, by title, in file order.

    Example:
        >>> len(texts()) >= 60
        True
    """
    found = _read("texts.yaml")
    assert isinstance(found, dict)
    return {title: text.rstrip("\n") for title, text in found.items()}
