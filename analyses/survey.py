"""Survey: check, scan, weights, ablate and verdict in a row, each skipped where it is done.

How much is run is the pace. Where a model has too many heads to ablate them all, the heads whose
patterns stand out are ablated, and beside them some that do not, drawn at random: without those,
an effect could not be called unusual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import cast

import pandas as pd

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.attention_sample import store_samples
from rolecall.analyses.generalise import Blind, generalise
from rolecall.analyses.heads import head_name
from rolecall.analyses.judge import judge
from rolecall.analyses.manifest import describe, model_digest
from rolecall.analyses.manifest_file import read_manifest
from rolecall.analyses.models import Model
from rolecall.analyses.own_task import HEAD
from rolecall.analyses.role_tasks import role_tasks
from rolecall.analyses.scan import scan
from rolecall.analyses.tables import read_table
from rolecall.analyses.tiers import Thresholds
from rolecall.analyses.verdict import Verdicts, verdict
from rolecall.analyses.weights import weights
from rolecall.probes.treebank import require_treebank, treebank_probes

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the units done and the units in all."""


@dataclass(frozen=True)
class Pace:
    """How much of everything is run.

    Attributes:
        examples: Examples a role.
        items: Items a task.
        kinds: What heads are replaced by.
        damage: Passages of unrelated text.
        leaders: Heads of each role that are ablated, by rules met, then margin; None for all heads.
        controls: Heads drawn at random beside them.
        sentences: Sentences a relation, if there is a treebank.
    """

    examples: int
    items: int
    kinds: tuple[str, ...]
    damage: int
    leaders: int | None
    controls: int
    sentences: int


QUICK = Pace(96, 24, ("mean",), 4, 2, 4, 100)
ORDINARY = Pace(96, 32, ("zero", "mean", "resample"), 12, 4, 12, 300)
FULL = Pace(192, 96, ("zero", "mean", "resample"), 32, None, 0, 2000)
FEW_HEADS = 64
"""A model with no more heads has all of them ablated at any pace."""


@dataclass(frozen=True)
class Survey:
    """What a survey found.

    Attributes:
        folder: The run folder.
        verdicts: Labels, heads, stability, sensitivity, and what was not decided.
        generalisation: How the syntactic labels do on a treebank; None without one.
        notes: What was left out on the way, and why.
    """

    folder: Path
    verdicts: Verdicts
    generalisation: pd.DataFrame | None
    notes: tuple[str, ...]


def survey(
    model: Model,
    *,
    out: Path,
    pace: Pace = ORDINARY,
    treebank: Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Survey:
    """The whole of it on one model, written to `out`; what is there already is not run again.

    Raises:
        ValueError: The model does not pass `check`, `out` holds a run of another model, or the
            treebank cannot be read.
    """
    if treebank is not None:
        require_treebank(Path(treebank))
        treebank_probes(treebank)  # one that cannot be read must not cost the whole survey first
    scores = scan(model, n=pace.examples, seed=seed, out=out, progress=progress).scores
    store_samples(model, scores, out, n=pace.examples, seed=seed)
    if not _has_weights(model, out, seed):
        weights(model, seed=seed, out=out, progress=progress)
    notes = _ablated(model, scores, out=out, pace=pace, seed=seed, progress=progress)
    found = verdict(out, seed=seed)
    blind = None
    if treebank is not None:
        how = Blind(n=pace.sentences, min_margin=Thresholds().min_margin, seed=seed)
        blind = generalise(model, found.verdicts, treebank, out=out, blind=how, progress=progress)
    return Survey(out, found, blind, tuple(notes))


def _has_weights(model: Model, out: Path, seed: int) -> bool:
    try:
        for name in ("weights", "composition"):
            read_table(out, name)
        manifest = read_manifest(out)
    except ValueError:
        return False
    same = model_digest(manifest.get("model", {})) == model_digest(describe(model))
    return same and manifest.get("settings", {}).get("weights_seed") == seed


def _ablated(
    model: Model,
    scores: pd.DataFrame,
    *,
    out: Path,
    pace: Pace,
    seed: int,
    progress: Progress | None,
) -> Iterable[str]:
    """What a reader must know of the effects; the effects table is written to `out`."""
    if not model.has_lm_head:
        return [f"{model.name} has no language-model head: no effects, patterns only"]
    if model.plain is None:
        return [f"{model.name} was given as a bridge alone: no effects, patterns only"]
    chosen = chosen_heads(scores, pace, seed=seed)
    tasks = role_tasks(model, n=pace.items, seed=seed)
    notes = [
        f"task {task.name}: no items for this model ({', '.join(task.dropped) or 'none made'})"
        for task in tasks
        if not task.items
    ]
    able = [task for task in tasks if task.items]
    if not able:
        return [*notes, "no task can be run on this model: no effects, patterns only"]
    settings = Settings(
        heads=tuple(head_name(head) for head in chosen), seed=seed, kl=False, damage=pace.damage
    )
    try:
        found = ablate(model, able, pace.kinds, settings=settings, out=out, progress=progress)
    except ValueError as error:  # what cannot be ablated can still be described
        return [*notes, f"no effects, patterns only: {error}"]
    if chosen:
        total = len(scores.drop_duplicates(HEAD))
        notes.append(
            f"{len(chosen)} of {total} heads were ablated: those that lead a role, and "
            f"{pace.controls} drawn at random; --full ablates all"
        )
    return [*notes, *found.notes]


def chosen_heads(scores: pd.DataFrame, pace: Pace, *, seed: int) -> tuple[tuple[int, int], ...]:
    """The heads to ablate, in order; none where all are.

    For each role the heads that fail the fewest rules of a pattern, and at random some others.
    """
    keys = cast("Iterable[tuple[int, int]]", scores.groupby(HEAD).groups)
    every = [(int(layer), int(head)) for layer, head in keys]
    if pace.leaders is None or len(every) <= FEW_HEADS:
        return ()
    judged = judge(scores)
    judged = judged[(judged["margin"] > 0) & (judged["p_max"] < Thresholds().alpha)]
    judged = judged.assign(lacks=judged["failed"].str.count(r"\S+"))
    order = judged.sort_values(["role", "lacks", "margin"], ascending=[True, True, False])
    leading = order.groupby("role", sort=True).head(pace.leaders)
    first = {(int(layer), int(head)) for layer, head in leading[HEAD].itertuples(index=False)}
    others = [head for head in sorted(every) if head not in first]
    drawn = Random(seed).sample(others, min(pace.controls, len(others)))
    return tuple(sorted(first.union(drawn)))
