"""Screening: one backward pass that guesses every head's effect, to be held against the exact one.

A head's z is moved a step α towards what would replace it; the derivative of the metric at α = 0 is
the effect to first order (attribution patching: Nanda 2023; Syed et al. 2023). With zero in its
place its absolute value is the importance of Michel et al. 2019, `E |∂L/∂ξ|`: summed over positions
first, the absolute value taken item by item, inside the mean. It misses what is not linear: heads
whose softmax is saturated, and self-repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from einops import rearrange
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor, nn

from rolecall.analyses.anatomy import first, plain_module, watched
from rolecall.analyses.downstream import Engine, open_engine
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.item_batches import Batch, batches, require_items
from rolecall.analyses.metrics import score
from rolecall.analyses.models import Model
from rolecall.analyses.tables import replace_file
from rolecall.analyses.tail import no_cache
from rolecall.probes.base import Task

TOKENS = 256
"""Tokens of one backward pass; the graph of all layers is held."""

GUESSES = (
    ("importance", "zero"),
    ("importance_in_layer", "zero"),
    ("attribution_zero", "zero"),
    ("attribution_resample", "resample"),
)
"""Each guess, and the kind of replacement whose exact effects it is about."""

Slopes = Float[np.ndarray, "item layer head"]


def screen(model: Model, tasks: Task | Iterable[Task]) -> pd.DataFrame:
    """One row a task and head, sorted: what a gradient says of every head.

    Columns: `importance`, E |∂M/∂ξ| in the metric's unit; `importance_in_layer`, divided by the
    layer's ℓ2 norm, so that ranks across layers lose their meaning; `attribution_zero`, the
    effect of zero ablation to first order, oriented as effects are; `attribution_resample`, that
    of resampling from the twin, null without twins.

    Raises:
        ValueError: An item that cannot be run, or a model without logits.
    """
    wanted = [tasks] if isinstance(tasks, Task) else list(tasks)
    for task in wanted:
        require_items(task, model)
    with evaluating(plain_module(model)):
        engine = open_engine(model)
        tables = [_screen(engine, task) for task in wanted]
    table = pd.concat(tables, ignore_index=True)
    return table.sort_values(["task", "layer", "head"], ignore_index=True)


def _screen(engine: Engine, task: Task) -> pd.DataFrame:
    model = engine.model
    sign = 1.0 if task.metric == "logit_difference" else -1.0
    zero, resample = [], []
    paired = [i for i, item in enumerate(task.items) if item.twin_token_ids is not None]
    for batch in batches(task, model, tokens=TOKENS):
        zero.append(sign * _slopes(engine, batch, _towards_zero))
    if paired:
        for batch in batches(task, model, tokens=TOKENS, chosen=paired):
            twins = _twin_z(engine, batch)
            resample.append(-sign * _slopes(engine, batch, lambda at, z, t=twins: t[at] - z))
    slopes = np.concatenate(zero)
    importance = np.abs(slopes).mean(axis=0)
    norm = np.sqrt((importance**2).sum(axis=1, keepdims=True))
    in_layer = np.divide(importance, norm, out=np.zeros_like(importance), where=norm > 0)
    twin = np.concatenate(resample).mean(axis=0) if resample else np.full_like(importance, np.nan)
    size = model.n_heads // model.n_kv_heads
    layers = np.repeat(model.pattern_layers, model.n_heads)
    heads = np.tile(np.arange(model.n_heads), len(model.pattern_layers))
    return pd.DataFrame(
        {
            "task": task.name,
            "layer": layers,
            "head": heads,
            "kv_group": heads // size,
            "importance": importance.ravel(),
            "importance_in_layer": in_layer.ravel(),
            "attribution_zero": slopes.mean(axis=0).ravel(),
            "attribution_resample": twin.ravel(),
        }
    )


def _towards_zero(_layer: int, z: Tensor) -> Tensor:
    # The step goes up in ξ, so the effect of going down to zero has the other sign.
    return z


def _slopes(engine: Engine, batch: Batch, direction: Callable[[int, Tensor], Tensor]) -> Slopes:
    """∂ metric / ∂α for each item, layer and head, in one forward and one backward pass."""
    model, n_items = engine.model, len(batch.items)
    steps = {
        layer: torch.zeros(n_items, model.n_heads, device=model.device, requires_grad=True)
        for layer in model.pattern_layers
    }

    def move(layer: int) -> Callable[..., Any]:
        def hook(_module: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Any]) -> Any:
            z = engine.by_head(args[0])
            along = direction(layer, z.detach())
            moved = z + rearrange(steps[layer], "b h -> b 1 h 1").to(z) * along
            return (rearrange(moved, "b p h e -> b p (h e)"), *args[1:]), kwargs

        return hook

    hooks = {engine.parts.projection[layer]: move(layer) for layer in steps}
    with torch.enable_grad(), watched(before=hooks):
        hidden = first(engine.parts.body(input_ids=batch.token_ids, **no_cache(model)))
        reads = batch.reads
        normed = rearrange(hidden[reads.row, reads.pos], "read d -> 1 read d")
        metric = score(engine.tail, normed, reads).metric
        slopes = torch.autograd.grad(metric.sum(), list(steps.values()))
    return torch.stack(slopes, dim=1).double().cpu().numpy()


def _twin_z(engine: Engine, batch: Batch) -> dict[int, Tensor]:
    assert batch.twin_ids is not None
    kept: dict[int, Tensor] = {}

    def keep(layer: int) -> Callable[..., None]:
        def hook(_module: nn.Module, args: tuple[Tensor, ...], _kwargs: dict[str, Any]) -> None:
            kept[layer] = engine.by_head(args[0])

        return hook

    hooks = {module: keep(layer) for layer, module in engine.parts.projection.items()}
    with watched(before=hooks):
        engine.parts.body(input_ids=batch.twin_ids, **no_cache(engine.model))
    return kept


def beside_exact(screened: pd.DataFrame, effects: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The guesses with the exact effects (`total`) of the same heads and tasks beside them."""
    exact = effects[effects["head"].notna() & effects["layer"].notna()]
    exact = exact.loc[exact["ablation"] == kind, ["task", "layer", "head", "total"]]
    return screened.merge(exact, on=["task", "layer", "head"]).dropna(subset=["total"])


def agreement(screened: pd.DataFrame, effects: pd.DataFrame) -> pd.DataFrame:
    """How well the guesses rank heads: Spearman's correlation with the exact effects.

    One row for each task, guess and kind of replacement that both tables have: importance with the
    size of the zero effect, attributions with the effects themselves. `importance_in_layer` has no
    meaning across layers: its correlation is the mean of those within layers.
    """
    found = []
    for guess, kind in GUESSES:
        rows = beside_exact(screened, effects, kind).dropna(subset=[guess])
        for task, part in rows.groupby("task"):
            total = part["total"] if guess.startswith("attribution") else part["total"].abs()
            part = part.assign(exact=total)
            apart = part.groupby("layer") if guess == "importance_in_layer" else [("all", part)]
            known = [value for _, some in apart if (value := _spearman(some, guess)) is not None]
            if known:
                numbers = {"spearman": float(np.mean(known)), "n_heads": len(part)}
                found.append({"task": task, "guess": guess, "ablation": kind, **numbers})
    columns = ["task", "guess", "ablation", "spearman", "n_heads"]
    return pd.DataFrame(found, columns=columns).sort_values(["task", "guess"], ignore_index=True)


def _spearman(rows: pd.DataFrame, guess: str) -> float | None:
    if len(rows) < 3 or rows["exact"].nunique() < 2 or rows[guess].nunique() < 2:
        return None
    return float(spearmanr(rows[guess], rows["exact"])[0])  # type: ignore[arg-type]


def write_screening(folder: Path, screened: pd.DataFrame, found: pd.DataFrame) -> list[Path]:
    """The paths of `effects/screening.csv` and `effects/screening-agreement.csv`."""
    paths = [folder / "effects" / f"{name}.csv" for name in ("screening", "screening-agreement")]
    for path, rows in zip(paths, (screened, found), strict=True):
        replace_file(path, lambda partial, r=rows: r.to_csv(partial, index=False))
    return paths
