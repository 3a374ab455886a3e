"""A run folder made without a model: heads of known roles, their evidence, scores and effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from rolecall.analyses.evidence import Block, LinkRow
from rolecall.analyses.score_table import Settings, join, score_role
from rolecall.analyses.tables import write_json, write_table
from rolecall.probes.base import Crafted, Probe
from tests.synthetic_evidence import write

LAYERS, HEADS, GROUP = 2, 4, 2
SHAPE = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
NOISE = 0.03

FAMILIES = {
    "previous_token": ("positional", "mass", "continuation"),
    "first_token": ("positional", "mass", None),
    "induction": ("induction", "mass", "second_copy"),
    "subject_verb": ("syntactic", "hit", "agreement"),
}


def probe_of(role: str) -> Probe:
    family, kind, task = FAMILIES[role]

    def dataset(aligner, *, n, seed):
        return Crafted(())

    no_task = "" if task else "it rests"
    accounts = ("offset", "nearest") if family != "positional" else ("nearest",)
    return Probe(role, family, "d", "s", dataset, kind, accounts, None, no_task)  # type: ignore[arg-type]


def links_of(role: str, n_examples: int, n_templates: int) -> list[LinkRow]:
    """Four links an example; the content roles' target stands at several distances."""
    rows = []
    for example in range(n_examples):
        for k in range(4):
            offset = -1 if role == "previous_token" else (-1, -2, -3, -4)[(example + k) % 4]
            target = 0 if role == "first_token" else 9 + offset
            rows.append(
                LinkRow(
                    example=example,
                    template=f"t{example % n_templates}",
                    twin=False,
                    query=(9,),
                    target=(target,),
                    offsets=(offset,),
                    nearest=role != "previous_token" and offset == -1,
                    first=None,
                    same_word=None,
                    frequency=None,
                    chance=0.1,
                )
            )
    return rows


def block_of(rows: Sequence[LinkRow], looks: Mapping[tuple[int, int], object], seed: int) -> Block:
    """Evidence in which head `looks[h]` of `(mass, sink)` or a function of the link is seen."""
    rng = np.random.default_rng(seed)
    shape = (len(rows), len(SHAPE))
    mass, sink = np.full(shape, 0.1), np.full(shape, 0.3)
    for column, head in enumerate(SHAPE):
        if head in looks:
            told = looks[head]
            pairs = [told(row) if callable(told) else told for row in rows]
            mass[:, column], sink[:, column] = np.array(pairs).T
    noise = rng.uniform(-NOISE, NOISE, size=shape)
    mass = np.clip(mass + noise, 0, 1)
    rival = np.clip((1 - mass) * (1 - sink) / 3, 0, 1)
    return Block(
        rows=tuple(rows),
        mass=mass.astype(np.float32),
        hit=(mass > 0.45).astype(np.float32),
        sink=sink.astype(np.float32),
        rivals=np.stack([rival, rival], axis=-1).astype(np.float32),
        has_rival=np.ones((len(rows), 2), dtype=bool),
    )


def make_run(
    folder: Path,
    looks: Mapping[str, Mapping[tuple[int, int], object]],
    *,
    n_examples: int = 48,
    n_templates: int = 8,
    effects: pd.DataFrame | None = None,
) -> Path:
    """A run folder with evidence and scores for the roles in `looks`."""
    scores = {}
    for number, (role, heads) in enumerate(looks.items()):
        probe = probe_of(role)
        block = block_of(links_of(role, n_examples, n_templates), heads, seed=number)
        facts = {"role": role, "score_kind": probe.score_kind, "fingerprint": "x"}
        path = folder / "evidence" / f"{role}.parquet"
        evidence = write(path, [block], layers=LAYERS, heads=HEADS, **facts)
        scores[role] = score_role(
            evidence,
            probe,
            group_size=GROUP,
            settings=Settings(n_resamples=200, n_permutations=199),
        )
    write_table(folder, "scores", join(scores))
    roles = {
        role: {"family": family, "score_kind": kind, "task": task}
        | {"no_task": None if task else "it rests"}
        for role, (family, kind, task) in FAMILIES.items()
        if role in looks
    }
    write_json(folder / "manifest.json", {"model": {"name": "made up"}, "roles": roles})
    if effects is not None:
        effects.to_parquet(folder / "effects.parquet")
    return folder


def effects_of(
    told: Mapping[str, Mapping[tuple[int, int], float]],
    *,
    width: float = 0.02,
    damage: Mapping[tuple[int, int], float] | None = None,
    ablation: str = "mean",
    **columns,
) -> pd.DataFrame:
    """An effects table with the columns of design §6; heads that are not told of have no effect."""
    rows = []
    for task, effects in told.items():
        metric = "logit_difference" if task == "agreement" else "loss"
        for layer, head in SHAPE:
            total = effects.get((layer, head), 0.0)
            p = 0.001 if abs(total) > width else 0.8
            rows.append(
                {
                    "task": task, "layer": layer, "head": head, "kv_group": head // GROUP,
                    "ablation": ablation, "metric": metric, "clean": 1.0, "total": total,
                    "total_low": total - width, "total_high": total + width, "direct": total,
                    "indirect": 0.0, "self_repair": np.nan, "p_value": p, "p_max": p,
                    "q_value": p, "generic_damage": (damage or {}).get((layer, head), 0.0),
                    "n_items": 50,
                }
            )  # fmt: skip
    return pd.DataFrame(rows).assign(**columns)
