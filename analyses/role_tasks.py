"""The tasks of roles, for one model: what it should do if heads of those roles matter."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from rolecall.analyses.models import Model
from rolecall.probes.base import Probe, Task, TaskFunction
from rolecall.probes.registry import BUILT_IN, PluginWarning, known
from rolecall.probes.task_names import require_task, unknown_task

DEFAULT_N = 48


def role_tasks(
    model: Model, names: Iterable[str] = (), *, n: int = DEFAULT_N, seed: int = 0
) -> list[Task]:
    """Every task of the known roles, or those that `names` gives by task or, for its own, by role.

    Tasks without items are among them, with the reasons. Roles that share a task give it once. A
    third party's task that fails is left out with a warning.

    Raises:
        ValueError: A name is unknown (the message offers the nearest one), or that role has no
            task.
    """
    if n < 1:
        raise ValueError(f"a task needs at least one item; got n={n}")
    made = [(p, f, _make(f, p, model, n=n, seed=seed)) for p in known() for f in p.tasks]
    by_name = {task.name: task for _, _, task in made if task is not None}
    by_role = {p.name: task for p, f, task in made if task is not None and f is p.task}
    wanted = list(names)
    if not wanted:
        return list(by_name.values())
    return list({(task := _find(w, by_role, by_name)).name: task for w in wanted}.values())


def _find(name: str, by_role: dict[str, Task], by_name: dict[str, Task]) -> Task:
    if name in by_name:
        return by_name[name]
    if name in by_role:
        return by_role[name]
    for probe in known():
        if probe.name == name:
            require_task(probe)
            raise ValueError(f"the task of role {name!r} failed; see the warning")
    raise unknown_task(name, {*by_name, *by_role})


def _make(function: TaskFunction, probe: Probe, model: Model, *, n: int, seed: int) -> Task | None:
    try:
        return function(model.aligner, n=n, seed=seed)
    except Exception as error:
        if probe in BUILT_IN:
            raise
        text = f"a task of {probe.name!r} is left out: {type(error).__name__}: {error}"
        warnings.warn(text, PluginWarning, stacklevel=3)
        return None
