"""How to make a run again, and how to cite it."""

from __future__ import annotations

import shlex

from rolecall.analyses.own_task import DAMAGE
from rolecall.reports.commands_kept import kept_commands
from rolecall.reports.run import Run


def commands(run: Run) -> tuple[str, ...]:
    """The commands that make this run again: those that were typed, else as the manifest has it."""
    return (*(kept_commands(run.folder) or _steps(run)), "rolecall report RUN")


def _steps(run: Run) -> tuple[str, ...]:
    """What would have been typed for a run that was made in Python, as far as its tables go."""
    model, settings = run.manifest.get("model", {}), run.manifest.get("settings", {})
    name = shlex.quote(str(model.get("name") or "MODEL"))
    name = ("" if name == "embedded" else f" {name}") + _model_options(model)
    n = f" -n {settings['n']}" if "n" in settings else ""
    made = {
        "scores": f"rolecall scan{name}{n}{_seed(settings.get('seed'))} --out RUN",
        "weights": f"rolecall weights{name}{_seed(settings.get('weights_seed'))} --out RUN",
        "effects": f"rolecall ablate{name}{_ablation(run)} --out RUN",
        "heads": "rolecall verdict RUN",
    }
    return tuple(made[step] for step in made if step in run.tables)


def _seed(seed: int | None) -> str:
    return "" if seed is None else f" --seed {seed}"


def _ablation(run: Run) -> str:
    settings = run.manifest.get("settings", {}).get("ablation", {})
    heads, damage = settings.get("heads", "all"), settings.get("damage_passages")
    said = "".join(f" --kind {kind}" for kind in settings.get("kinds", ()))
    said += f" --heads {','.join(heads)}" if heads != "all" else ""
    said += f" --group {settings['group']}" if settings.get("group") else ""
    said += "" if damage is None else f" --damage {damage}"
    used = [f.get("used", 0) for t, f in run.manifest.get("tasks", {}).items() if t != DAMAGE]
    said += f" -n {max(used)}" if used else ""
    return said + _seed(settings.get("seed"))


def cite(run: Run) -> str:
    """A BibTeX entry for rolecall, with what is needed to tell this run from another."""
    model, versions = run.manifest.get("model", {}), run.manifest.get("versions", {})
    version = versions.get("rolecall", "0.1.0")
    weights = str(model.get("weights_hash") or "unknown")[:16]
    return (
        "@software{rolecall,\n"
        "  title   = {rolecall: the role of every attention head, and whether the model depends "
        "on it},\n"
        f"  version = {{{version}}},\n"
        f"  note    = {{Run on {run.name}, weights {weights}}}\n"
        "}"
    )


def _model_options(model: dict) -> str:
    parts = []
    if model.get("revision"):
        parts.append(f"--revision {shlex.quote(str(model['revision']))}")
    if model.get("dtype") not in (None, "float32"):
        parts.append(f"--dtype {model['dtype']}")
    bos = model.get("bos", {})
    policy = bos.get("policy") if isinstance(bos, dict) else bos
    if policy in (True, False):
        parts.append("--bos" if policy else "--no-bos")
    return "".join(f" {part}" for part in parts)
