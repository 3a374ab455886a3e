"""What tasks are called, told without making one: roles have names, and so have their tasks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from rolecall.probes.base import Probe, TaskFunction
from rolecall.probes.registry import BUILT_IN, known


def require_task_name(name: str) -> None:
    """Nothing, if a role or a task may be called so.

    A built-in task has the name of the function that makes it; somebody else's may have another,
    so where there are such tasks a strange name passes, until the tasks are made.

    Raises:
        ValueError: No role or task has this name, or that role has no task.
    """
    for probe in known():
        if probe.name == name:
            require_task(probe)
            return
    tasked = [probe for probe in known() if probe.tasks]
    functions = {_called(function) for probe in tasked for function in probe.tasks}
    names = {probe.name for probe in tasked if probe.task} | functions
    if name not in names and all(probe in BUILT_IN for probe in tasked):
        raise unknown_task(name, names)


def require_task(probe: Probe) -> TaskFunction:
    """What makes the role's task.

    Raises:
        ValueError: It has none; the message says why.
    """
    if probe.task is None:
        raise ValueError(f"role {probe.name!r} has no task: {probe.no_task}")
    return probe.task


def unknown_task(name: str, names: Iterable[str]) -> ValueError:
    """The error for a name that is none of these; it offers the nearest one."""
    there = sorted(set(names))
    near = difflib.get_close_matches(name, there, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"no role or task is named {name!r}.{hint} Known: {', '.join(there)}")


def _called(function: TaskFunction) -> str:
    return getattr(function, "__name__", "")
