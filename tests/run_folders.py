"""Run folders made of drawn numbers, with the columns of design §6, for tests of the reports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rolecall.analyses.tables import SCHEMAS, write_table

ROLES = {
    "previous_token": ("positional", "mass"),
    "next_token": ("positional", "mass"),
    "first_token": ("positional", "mass"),
    "delimiter": ("delimiter", "mass"),
    "bracket": ("delimiter", "hit"),
    "subject_verb": ("syntactic", "hit"),
    "verb_object": ("syntactic", "hit"),
    "determiner": ("syntactic", "hit"),
    "adjective": ("syntactic", "hit"),
    "auxiliary": ("syntactic", "hit"),
    "coreference": ("coreference", "hit"),
    "rare_token": ("rare-token", "hit"),
    "duplicate_token": ("induction", "mass"),
    "induction": ("induction", "mass"),
}
TASKED = ("subject_verb", "coreference", "induction", "bracket", "duplicate_token")
ALL = ("scores", "effects", "weights", "verdicts", "heads", "manifest", "extras")


def write_run(
    folder: Path,
    shape: tuple[int, int] = (5, 8),
    *,
    tables: Iterable[str] = ALL,
    seed: int = 0,
    name: str = "drawn-model",
) -> Path:
    """The folder, with a run of drawn numbers in it; L1H3 is the best previous-token head."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = set(tables)
    scores = draw_scores(shape, seed=seed)
    effects = draw_effects(scores, seed=seed)
    verdicts = draw_verdicts(scores, effects)
    heads = draw_heads(scores, effects, verdicts)
    if "scores" in wanted:
        _write(folder, "scores", scores)
    if "effects" in wanted:
        _write(folder, "effects", effects)
    if "weights" in wanted:
        _write(folder, "weights", draw_weights(scores, seed=seed))
    if "verdicts" in wanted:
        _write(folder, "verdicts", verdicts)
    if "heads" in wanted:
        heads.to_csv(folder / "heads.csv", index=False)
    if "extras" in wanted:
        _write(folder, "composition", draw_composition(heads, seed=seed))
        _write(folder, "pruning", draw_pruning(verdicts, heads, seed=seed))
        draw_sensitivity().to_csv(folder / "sensitivity.csv", index=False)
    if "manifest" in wanted:
        text = json.dumps(manifest(shape, name), indent=2)
        (folder / "manifest.json").write_text(text, encoding="utf-8")
    return folder


def _write(folder: Path, name: str, rows: pd.DataFrame) -> None:
    """Nothing; writes a table, columns that were not drawn being null."""
    if name in SCHEMAS:
        write_table(folder, name, rows.reindex(columns=SCHEMAS[name].names))
    else:
        rows.to_parquet(folder / f"{name}.parquet", index=False)


def draw_scores(shape: tuple[int, int], *, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    best = min(shape[1] + 3, shape[0] * shape[1] - 1)
    layer, head = (a.ravel() for a in np.indices(shape))
    parts = []
    for i, (role, (family, kind)) in enumerate(ROLES.items()):
        low = 0.05 + 0.2 * draw.random(len(layer)) ** 2
        strong = draw.random(len(layer)) < (0.3 if role == "first_token" else 0.035)
        if role == "previous_token":
            strong = strong & False
            strong[best] = True
        score = np.where(strong, 0.55 + 0.4 * draw.random(len(layer)), low)
        if role == "previous_token":
            score[best] = 0.97
        width = 0.03 + 0.03 * draw.random(len(layer))
        baseline = 0.15 + 0.2 * draw.random()
        sink = np.clip(0.9 - score + 0.1 * draw.random(len(layer)), 0, 0.95)
        parts.append(
            pd.DataFrame(
                {
                    "role": role,
                    "family": family,
                    "layer": layer,
                    "head": head,
                    "kv_group": head // 2,
                    "score_kind": kind,
                    "score": score,
                    "ci_low": np.clip(score - width, 0, 1),
                    "ci_high": np.clip(score + width, 0, 1),
                    "chance": 0.1 + 0.01 * i,
                    "baseline": baseline,
                    "baseline_name": "offset -1",
                    "margin": score - baseline,
                    "margin_low": score - baseline - width,
                    "specificity": np.where(strong, score - 0.1, 0.0),
                    "specificity_low": np.where(strong, score - 0.2, -0.05),
                    "consistency": np.where(strong, 1.0, 0.4),
                    "off_baseline": score * 0.9,
                    "sink": sink,
                    "sink_adjusted": np.where(sink < 0.9, score / (1 - sink), np.nan),
                    "p_value": np.where(strong, 0.001, 0.4),
                    "p_max": np.where(strong, 0.002, 1.0),
                    "q_value": np.where(strong, 0.004, 0.8),
                    "n_links": 96,
                    "n_examples": 96,
                    "n_templates": 12,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def draw_effects(scores: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed + 1)
    parts = []
    for role in TASKED:
        rows = scores[scores["role"] == role]
        for ablation, scale in (("zero", 1.4), ("mean", 1.0)):
            strong = rows["p_max"].to_numpy() < 0.05
            total = 0.02 * draw.standard_normal(len(rows))
            total = total + strong * scale * draw.exponential(0.6, len(rows))
            direct = total * draw.uniform(0.8, 1.6, len(rows))
            known = np.abs(direct) > 0.1
            repair = np.where(known & (direct > total), 1 - total / direct, np.nan)
            parts.append(
                pd.DataFrame(
                    {
                        "task": role,
                        "layer": rows["layer"].to_numpy(),
                        "head": rows["head"].to_numpy(),
                        "kv_group": rows["kv_group"].to_numpy(),
                        "ablation": ablation,
                        "metric": "loss" if role == "induction" else "logit_difference",
                        "clean": 2.31,
                        "total": total,
                        "total_low": total - 0.05,
                        "total_high": total + 0.05,
                        "direct": direct,
                        "indirect": total - direct,
                        "self_repair": repair,
                        "p_value": np.where(strong, 0.001, 0.5),
                        "p_max": np.where(strong, 0.01, 1.0),
                        "q_value": np.where(strong, 0.01, 0.9),
                        "generic_damage": np.abs(0.01 * draw.standard_normal(len(rows))),
                        "n_items": 80,
                        "heads": [f"L{a}H{b}" for a, b in rows[["layer", "head"]].to_numpy()],
                        "interpretable": role != "bracket",
                        "clean_accuracy": 0.55 if role == "bracket" else 0.9,
                        "replaced_by": "",
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def draw_weights(scores: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed + 2)
    rows = scores.loc[scores["role"] == "induction", ["layer", "head", "kv_group"]]
    numbers = {
        name: draw.uniform(-1, 1, len(rows))
        for name in ("ov_copying", "ov_copying_rank", "qk_previous_token")
    }
    return rows.reset_index(drop=True).assign(**numbers)


def draw_verdicts(scores: pd.DataFrame, effects: pd.DataFrame) -> pd.DataFrame:
    rows = scores[scores["p_max"] < 0.05]
    mean = effects[effects["ablation"] == "mean"].rename(columns={"task": "role"})
    rows = rows.merge(mean[["role", "layer", "head", "total"]], "left", ["role", "layer", "head"])
    rows.loc[rows["role"] == "bracket", "total"] = np.nan  # the model does not do that task
    tier = np.select([rows["total"] > 0.3, rows["total"] > 0.1], ["A", "B"], "C")
    reasons = [
        f"attends to the target {score:.2f} of the time, {baseline:.2f} by offset -1, "
        "on 12 of 12 templates"
        for score, baseline in rows[["score", "baseline"]].to_numpy()
    ]
    effect = np.where(rows["total"].isna(), "unknown", np.where(tier == "C", "unclear", "helps"))
    return rows[["layer", "head", "role"]].assign(tier=tier, reasons=reasons, effect=effect)


def draw_heads(scores: pd.DataFrame, effects: pd.DataFrame, verdicts: pd.DataFrame) -> pd.DataFrame:
    heads = scores[["layer", "head", "kv_group"]].drop_duplicates()
    lead = verdicts.sort_values(["tier"], kind="stable").drop_duplicates(["layer", "head"])
    held = verdicts.assign(text=verdicts["role"] + " (" + verdicts["tier"] + ")")
    roles = held.groupby(["layer", "head"])["text"].agg("; ".join).rename("roles").reset_index()
    lead = lead.drop(columns=["reasons", "effect"]).rename(columns={"role": "label"})
    heads = heads.merge(lead, "left", ["layer", "head"]).merge(roles, "left", ["layer", "head"])
    own = scores.rename(columns={"role": "label"})
    wanted = ["label", "layer", "head", "score", "margin", "sink"]
    heads = heads.merge(own[wanted], "left", ["label", "layer", "head"])
    effects = effects[effects["ablation"] == "mean"].rename(columns={"task": "label"})
    wanted = ["label", "layer", "head", "total", "direct"]
    heads = heads.merge(effects[wanted], "left", ["label", "layer", "head"])
    heads["label"] = heads["label"].fillna("no clean label")
    columns = ["layer", "head", "kv_group", "label", "tier", "roles"]
    return heads[[*columns, "score", "margin", "total", "direct", "sink"]]


def draw_composition(heads: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed + 3)
    ends = heads[["layer", "head"]].to_numpy()
    pairs = ends[draw.integers(0, len(ends), (400, 2))]
    pairs = pairs[pairs[:, 0, 0] < pairs[:, 1, 0]][:60]
    return pd.DataFrame(
        {
            "from_layer": pairs[:, 0, 0],
            "from_head": pairs[:, 0, 1],
            "layer": pairs[:, 1, 0],
            "head": pairs[:, 1, 1],
            "kind": draw.choice(["q", "k", "v"], len(pairs)),
            "score": 0.2,
            "excess": draw.exponential(0.1, len(pairs)),
        }
    )


def draw_pruning(verdicts: pd.DataFrame, heads: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Curves in which a role's heads, all at once, cost more than as many random ones."""
    draw = np.random.default_rng(seed + 4)
    every = [f"L{layer}H{head}" for layer, head in heads[["layer", "head"]].to_numpy()]
    parts = []
    for task, power in (("induction", 0.3), ("coreference", 0.6)):
        rows = verdicts[verdicts["role"] == task][["layer", "head"]].to_numpy()
        held = [f"L{layer}H{head}" for layer, head in rows]
        ranked = [*held, *(name for name in every if name not in held)]
        stops = np.unique([*np.geomspace(1, len(every), 9).astype(int), 0, 3, len(held)])
        for order, steep in (
            (task, 0.4), ("largest effect", 0.3), ("smallest effect", 3.0), ("random", 2.0)
        ):  # fmt: skip
            lost = (stops / len(every)) ** (power * steep)
            curve = _curve(task, order, removed=stops, lost=lost, draw=draw)
            names = [None if order == "random" or not n else "+".join(ranked[:n]) for n in stops]
            parts.append(curve.assign(heads=names))
    return pd.concat(parts, ignore_index=True)


def _curve(
    task: str, order: str, *, removed: np.ndarray, lost: np.ndarray, draw: Any
) -> pd.DataFrame:
    loss = task == "induction"
    value = 0.2 + 6 * lost if loss else 4 - 4 * lost
    value = value + 0.03 * draw.standard_normal(len(removed))
    return pd.DataFrame(
        {
            "task": task,
            "order": order,
            "removed": removed,
            "metric": "loss" if loss else "logit_difference",
            "value": value,
            "low": value - 0.3,
            "high": value + 0.3,
            "n_items": 12,
        }
    )


def draw_sensitivity() -> pd.DataFrame:
    names = ("alpha", "min_margin", "min_consistency", "dormant", "min_ratio")
    rows = [
        {"threshold": name, "value": 0.8, "moved_to": 0.8 * factor, "flips": (i * 3 + j * 2) % 7}
        for i, name in enumerate(names)
        for j, factor in enumerate((0.75, 1.25))
    ]
    return pd.DataFrame(rows).assign(gained=0, lost=0, tier_changes=0)


def manifest(shape: tuple[int, int], name: str) -> dict:
    model = {
        "name": name,
        "n_layers": shape[0],
        "n_heads": shape[1],
        "n_kv_heads": max(1, shape[1] // 2),
        "dtype": "float32",
        "device": "cpu",
        "bos_policy": "auto",
        "weights_hash": "0123456789abcdef",
        "tokenizer_hash": "fedcba9876543210",
        "processing": "none",
    }
    roles = {
        role: {
            "family": family,
            "definition": f"Attends from a query to its {role.replace('_', ' ')}.",
            "source": "Somebody 2019",
            "score_kind": kind,
            "no_task": None if role in TASKED else "no behaviour hangs on it alone",
            "dataset_hash": "00112233",
            "used": 96,
            "dropped": {"an answer of several tokens": 4} if role in TASKED else {},
            "templates": 12,
            "links": 96,
        }
        for role, (family, kind) in ROLES.items()
    }
    tasks = {
        role: {"metric": "loss", "dataset_hash": "44", "used": 80, "dropped": {}} for role in TASKED
    }
    return {
        "model": model,
        "settings": {"n": 96, "seed": 0},
        "versions": {"rolecall": "0.1.0", "torch": "2.6"},
        "roles": roles,
        "tasks": tasks,
        "wall_seconds": {"check": 1.2, "scan induction": 3.4},
    }
