"""The words every probe is written in: links, examples, task items, and the probe itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from rolecall.probes.aligner import Aligner

Positions = tuple[int, ...]
"""Token positions of one word or span, ascending."""

ScoreKind = Literal["mass", "hit"]
Account = Literal["offset", "nearest", "first", "same_word", "frequency"]

NAME_LENGTH = 60
"""Letters of a role's name: it is part of file names and a row of every figure."""


@dataclass(frozen=True, slots=True)
class Link:
    """One place where a role says what a head of that kind would do.

    Attributes:
        query: Positions the head looks from. Attention *from* them is their mean, so a decoder
            link holds the word's last piece alone and an encoder link all its pieces.
        target: Positions the head looks at. Attention *to* them is their sum.
        rivals: Other key spans of the same example that a simpler head would look at instead.
        frequent: The span that an account by word frequency would choose, if there is one.
    """

    query: Positions
    target: Positions
    rivals: tuple[Positions, ...] = ()
    frequent: Positions | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids with their links.

    Attributes:
        token_ids: The whole input, special tokens included.
        template: What the example was made from; the unit over which intervals are taken.
        words: Positions of every word that could be attended to, special tokens left out.
        links: At least one.
        twin: The same text with one thing changed so that the right key moves; same length and
            the same number of links, in the same order, as here. It is scored as an example of
            its own, and resampled together with this one.
    """

    token_ids: tuple[int, ...]
    template: str
    words: tuple[Positions, ...]
    links: tuple[Link, ...]
    twin: Example | None = None

    @property
    def versions(self) -> tuple[Example, ...]:
        """This example, and its twin behind it where there is one."""
        return (self,) if self.twin is None else (self, self.twin)


@dataclass(frozen=True)
class Crafted:
    """A data set of examples, with what was left out and why.

    Attributes:
        examples: The examples that could be used.
        dropped: Reason → number of items dropped for it.
    """

    examples: tuple[Example, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that the model should do.

    Attributes:
        token_ids: The prompt, special tokens included.
        template: What the item was made from.
        position: Where the logits are read (a logit-difference item), else None.
        answer: The right next token there.
        foil: The wrong one.
        positions: Token positions whose prediction is scored (a loss item), else empty. Each is
            the position of the *predicted* token, so it is read from the logits one to the left.
        twin_token_ids: A prompt of the same length in which the answer is the foil.
    """

    token_ids: tuple[int, ...]
    template: str
    position: int | None = None
    answer: int | None = None
    foil: int | None = None
    positions: Positions = ()
    twin_token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Task:
    """What the model should do if heads of a role matter.

    Attributes:
        name: Short, unique; the `task` column of the effects table.
        metric: `logit_difference` (answer − foil) or `loss` (nats, on marked positions).
        items: The items that could be used.
        dropped: Reason → number of items dropped for it.
    """

    name: str
    metric: Literal["logit_difference", "loss"]
    items: tuple[Item, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class DatasetFunction(Protocol):
    """Makes a role's examples for one tokenizer: about `n` of them, the same for the same seed."""

    def __call__(self, aligner: Aligner, *, n: int, seed: int) -> Crafted: ...  # noqa: D102


@runtime_checkable
class TaskFunction(Protocol):
    """Makes a role's task for one tokenizer: about `n` items, the same for the same seed."""

    def __call__(self, aligner: Aligner, *, n: int, seed: int) -> Task: ...  # noqa: D102


@dataclass(frozen=True)
class Probe:
    """A role: its name, its examples, how attention on them is scored, and its task.

    Attributes:
        name: Unique, e.g. `induction`: letters, digits, `_` and `-`, at most `NAME_LENGTH`.
        family: positional, delimiter, syntactic, coreference, rare-token, induction or your own.
        definition: One sentence: what a head of this kind does.
        source: Where that definition comes from.
        dataset: Makes the examples.
        score_kind: `mass`, mean attention on the target, or `hit`, the share of links in which
            the target has more attention than any other word.
        accounts: The simpler accounts a head of this role must beat; see `probes/accounts.py`.
        task: Makes the task, or None.
        no_task: Why there is none, where there is none.
        also: Make further tasks, measured beside the role's own; no verdict rests on them.
        needs_future: The target stands to the right of the query, so only an encoder can have
            such a head.
    """

    name: str
    family: str
    definition: str
    source: str
    dataset: DatasetFunction
    score_kind: ScoreKind
    accounts: tuple[Account, ...] = ()
    task: TaskFunction | None = None
    no_task: str = ""
    also: tuple[TaskFunction, ...] = ()
    needs_future: bool = False

    @property
    def tasks(self) -> tuple[TaskFunction, ...]:
        """What makes its own task, if there is one, and then the others."""
        return (self.task, *self.also) if self.task is not None else self.also

    def __post_init__(self) -> None:
        """Refuses a name that is not plain.

        Raises:
            ValueError: The name has other signs, or is too long.
        """
        if not re.fullmatch(rf"[^\W_][\w-]{{0,{NAME_LENGTH - 1}}}", self.name):
            raise ValueError(
                f"a role's name has letters, digits, _ and -, begins with a letter or digit and "
                f"has at most {NAME_LENGTH}, so {_shown(self.name)} cannot be one; rename it "
                "(a role of a file is named after the file, a probe after its function)"
            )


def _shown(name: str) -> str:
    return repr(name) if len(name) <= NAME_LENGTH else f"{name[:NAME_LENGTH]!r}…"


def probe(
    *,
    family: str,
    source: str,
    score: ScoreKind,
    accounts: tuple[Account, ...] = (),
    task: TaskFunction | None = None,
    no_task: str = "",
    also: tuple[TaskFunction, ...] = (),
    needs_future: bool = False,
) -> Callable[[DatasetFunction], Probe]:
    """A decorator that turns a dataset function into a `Probe`.

    The probe's name is the function's and its definition the first line of the docstring.
    Nothing is registered by it: see `probes/registry.py`.

    Raises:
        ValueError: The function has no docstring, the score kind is unknown, or neither a task
            nor the reason for having none is given.
    """

    def wrap(dataset: DatasetFunction) -> Probe:
        name = getattr(dataset, "__name__", type(dataset).__name__)
        text = inspect.getdoc(dataset)
        if not text:
            raise ValueError(f"probe {name!r} has no docstring; its first line is the definition")
        if score not in ("mass", "hit"):
            raise ValueError(f"probe {name!r}: score is 'mass' or 'hit', not {score!r}")
        if task is None and not no_task:
            raise ValueError(f"probe {name!r}: give task=, or no_task= with the reason")
        return Probe(
            name=name,
            family=family,
            definition=text.splitlines()[0],
            source=source,
            dataset=dataset,
            score_kind=score,
            accounts=accounts,
            task=task,
            no_task=no_task,
            also=also,
            needs_future=needs_future,
        )

    return wrap
