"""What the page's script knows of every head: columns of numbers, short enough for 5,000 heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from rolecall.analyses.own_task import primary
from rolecall.reports.own_task import judged_effects, not_done, own_tasks, with_p
from rolecall.reports.palette import role_colour, role_letters
from rolecall.reports.run import NO_LABEL, Run, head_name, labels_of, rows_of
from rolecall.reports.shown_effect import shown_effects
from rolecall.reports.stored_samples import stored_samples
from rolecall.reports.visible import visible

HEAD = ["layer", "head"]
FEEDERS = 4
MOST = 1e9
"""JSON has no infinity; a ratio beyond a hundred is shown as such."""


def page_data(run: Run) -> dict[str, Any]:
    """Everything the script shows on hover, in the table and on a head's card.

    Columns are lists in the order of the heads; a number that is missing is null.
    """
    labels = labels_of(run)
    judged = judged_effects(run)
    shown = shown_effects(run)
    keys = pd.MultiIndex.from_frame(labels[HEAD])
    scores = rows_of(run, "scores")
    tasks = own_tasks(run)
    roles = sorted(set(scores["role"]) | {role for held in labels["roles"] for role in held})
    return {
        "layer": [int(v) for v in labels["layer"]],
        "head": [int(v) for v in labels["head"]],
        "kv": _column(labels, "kv_group", keys) if "kv_group" in labels else [],
        "label": ["" if label == NO_LABEL else label for label in labels["label"]],
        "tier": [tier or "" for tier in labels["tier"]],
        "judged": "heads" in run.tables,
        "held": [list(held) for held in labels["roles"]],
        "roles": {
            role: {
                "colour": role_colour(role),
                "letters": letters,
                "title": role.replace("_", " "),
                "task": tasks.get(role),
            }
            for role, letters in role_letters(roles).items()
        },
        "scores": {str(role): _scores(rows, keys) for role, rows in scores.groupby("role")},
        "effects": _effects(run, keys, judged),
        "shown": [shown.get((int(layer), int(head))) for layer, head in keys],
        "weights": _weights(run, keys),
        "reasons": _reasons(run, keys),
        "near": _near(run, keys),
        "feeds": _feeds(run, keys),
        "writes": _writes(run),
    }


def _column(rows: pd.DataFrame, name: str, keys: pd.MultiIndex, digits: int = 3) -> list[Any]:
    """The numbers of a column in the order of the heads."""
    if name not in rows.columns:
        return []
    values = rows.set_index(HEAD)[name].astype(float).reindex(keys).to_numpy()
    return [None if np.isnan(v) else _short(v, digits) for v in values.clip(-MOST, MOST).tolist()]


def _short(value: float, digits: int = 3) -> float | int:
    rounded = round(float(value), digits)
    # Two decimals are shown: rounded twice, they must be those of the number itself.
    while f"{rounded:.2f}" != f"{value:.2f}":
        digits += 1
        rounded = round(float(value), digits)
    return int(rounded) if rounded == int(rounded) else rounded


def _scores(rows: pd.DataFrame, keys: pd.MultiIndex) -> dict[str, Any]:
    first = rows.iloc[0]
    columns = {"score": "score", "low": "ci_low", "high": "ci_high", "margin": "margin"}
    columns |= {"marginLow": "margin_low", "p": "p_max", "sink": "sink"}
    return {
        "chance": _or_none(first["chance"]),
        "baseline": _or_none(first["baseline"]),
        **{short: _column(rows, name, keys) for short, name in columns.items()},
    }


def _or_none(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else _short(value)


def _effects(run: Run, keys: pd.MultiIndex, judged: pd.DataFrame) -> dict[str, Any]:
    effects = run.table("effects")
    if effects is None or effects.empty:
        return {}
    quoted = primary(effects)
    single = effects[effects["head"].notna() & effects["layer"].notna()]
    own = judged.dropna(subset="task").drop_duplicates(["task", *HEAD])
    cannot = not_done(run)
    found: dict[str, Any] = {}
    for task, rows in quoted.groupby("task"):
        others = single[(single["task"] == task)].drop_duplicates([*HEAD, "ablation"])
        found[str(task)] = {
            "ablation": str(rows["ablation"].iloc[0]),
            "cannot": cannot.get(str(task), ""),
            "total": _column(rows, "total", keys),
            "low": _column(rows, "total_low", keys),
            "high": _column(rows, "total_high", keys),
            "p": _column(with_p(rows, judged), "p", keys, 6),
            "ratio": _column(own[own["task"] == task], "ratio", keys, 2),
            "direct": _column(rows, "direct", keys),
            "repair": _column(rows, "self_repair", keys, 2),
            "damage": _column(rows, "generic_damage", keys),
            "kinds": {
                str(kind): _column(part, "total", keys)
                for kind, part in others.groupby("ablation")
                if kind != rows["ablation"].iloc[0]
            },
        }
    return found


def _weights(run: Run, keys: pd.MultiIndex) -> dict[str, Any]:
    weights = run.table("weights")
    if weights is None:
        return {}
    names = ("ov_copying", "ov_copying_rank", "qk_previous_token")
    return {name: _column(weights, name, keys) for name in names if name in weights.columns}


def _reasons(run: Run, keys: pd.MultiIndex) -> dict[str, list[list[str]]]:
    verdicts = run.table("verdicts")
    if verdicts is None:
        return {}
    found: dict[str, list[list[str]]] = {}
    places = _places(keys)
    rows = verdicts.sort_values(["tier", "role"], kind="stable")
    for layer, head, role, tier, why in rows[[*HEAD, "role", "tier", "reasons"]].to_numpy():
        if (layer, head) in places:
            entry = [str(role), str(tier), str(why or "")]
            found.setdefault(places[layer, head], []).append(entry)
    return found


def _near(run: Run, keys: pd.MultiIndex) -> dict[str, list[str]]:
    near = run.table("near_misses")
    if near is None:
        return {}
    found, places = {}, _places(keys)
    for layer, head, role, why in near[[*HEAD, "role", "reasons"]].to_numpy():
        if (layer, head) in places:
            found[places[layer, head]] = [str(role), "" if pd.isna(why) else str(why)]
    return found


def _feeds(run: Run, keys: pd.MultiIndex) -> dict[str, list[list[Any]]]:
    """For each head the strongest that feed it: name, input (q, k, v), excess over the baseline."""
    rows = run.table("composition")
    if rows is None or rows.empty:
        return {}
    top = rows[rows["excess"] > 0].sort_values("excess", ascending=False, kind="stable")
    top = top.groupby(HEAD, sort=False).head(FEEDERS)
    found: dict[str, list[list[Any]]] = {}
    places = _places(keys)
    columns = [*HEAD, "from_layer", "from_head", "kind", "excess"]
    for layer, head, from_layer, from_head, kind, excess in top[columns].to_numpy():
        if (layer, head) in places:
            entry = [head_name(from_layer, from_head), str(kind), round(float(excess), 3)]
            found.setdefault(places[layer, head], []).append(entry)
    return found


def _writes(run: Run) -> dict[str, list[Any]]:
    """Head → on which role's example, the text there, and the tokens it raises and lowers."""
    found: dict[str, list[Any]] = {}
    for path in sorted((run.folder / "attention").glob("*.json")):
        for sample in stored_samples(run.folder, path.stem):
            if sample.get("raises") and sample["head"] not in found:
                text = visible("".join(sample["tokens"])[:300])
                raises, lowers = (list(map(visible, sample[k])) for k in ("raises", "lowers"))
                found[sample["head"]] = [path.stem, text, raises, lowers]
    return found


def _places(keys: pd.MultiIndex) -> dict[tuple[int, int], str]:
    """Head → its number in the columns, as JSON writes a key."""
    return {(int(layer), int(head)): str(i) for i, (layer, head) in enumerate(keys)}
