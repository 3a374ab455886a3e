"""How to make a run again, and how to cite it."""

from __future__ import annotations

import shlex

from rolecall.reports.run import Run


def commands(run: Run) -> tuple[str, ...]:
    """The commands that make this run again, step by step, as far as its tables go."""
    model, settings = run.manifest.get("model", {}), run.manifest.get("settings", {})
    name = shlex.quote(str(model.get("name") or "MODEL"))
    name = "" if name == "embedded" else f" {name}"
    options = _model_options(model)
    seed = f" --seed {settings['seed']}" if "seed" in settings else ""
    n = f" -n {settings['n']}" if "n" in settings else ""
    steps = ["scores", "weights", "effects", "heads"]
    made = {
        "scores": f"rolecall scan{name}{options}{n}{seed} --out RUN",
        "weights": f"rolecall weights{name}{options} --out RUN",
        "effects": f"rolecall ablate{name}{options}{n}{seed} --out RUN",
        "heads": "rolecall verdict RUN",
    }
    return (*(made[step] for step in steps if step in run.tables), "rolecall report RUN")


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
