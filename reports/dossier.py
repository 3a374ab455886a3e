"""All that a run says of one head: where it looks, what it writes, what breaks without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rolecall.analyses.evidence import open_evidence
from rolecall.analyses.own_task import primary
from rolecall.reports.own_task import judged_effects, not_done, with_p
from rolecall.reports.run import NO_LABEL, Run, head_name, labels_of, significant
from rolecall.reports.stored_samples import samples_of_head

Row = dict[str, Any]
NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Dossier:
    """One head.

    Attributes:
        name: `L5H1`.
        head: Layer and head.
        label, tier: As in heads.csv; the label is `no clean label` where it has none, and
            `not judged` where no verdicts were worked out and it stands out for no role.
        reasons: (role, tier, why) for each role it holds; else its nearest miss, tier empty.
        scores: Its rows of the scores table, strongest margin first, with `sure`.
        effects: Its rows of the effects table, largest first, one a task; with `p`, the one that
            decides, `ratio` to its effect elsewhere, and `cannot`, how the model fares at a task
            that it does not do.
        weights: Name → number.
        fed_by, feeds: Heads before and after it: name, input (q, k, v), excess over baseline.
        templates: For its leading role, mean score by template, best first.
        samples: Stored examples on which it can be seen.
        missing: What the run lacks, with the command that would add it.
    """

    name: str
    head: tuple[int, int]
    label: str
    tier: str
    reasons: tuple[tuple[str, str, str], ...]
    scores: tuple[Row, ...]
    effects: tuple[Row, ...]
    weights: dict[str, float]
    fed_by: tuple[tuple[str, str, float], ...]
    feeds: tuple[tuple[str, str, float], ...]
    templates: tuple[tuple[str, float], ...]
    samples: tuple[Row, ...]
    missing: tuple[tuple[str, str], ...]

    @property
    def called(self) -> str:
        """Its label and tier in words."""
        label = self.label.replace("_", " ")
        if self.label == NO_LABEL and self.tier == "D":
            return f"{label}, though some task needs it (tier D)"
        tier = f"tier {self.tier}" if len(self.tier) == 1 else self.tier
        return f"{label}, {tier}" if tier else label


def dossier(run: Run, head: tuple[int, int], *, samples: Sequence[Row] = ()) -> Dossier:
    """The dossier of one head; `samples` are shown before those that are stored."""
    name = head_name(*head)
    labels = _of(labels_of(run), head) if "scores" in run.tables or "heads" in run.tables else None
    label = NO_LABEL if labels is None or labels.empty else str(labels["label"].iloc[0])
    if label == NO_LABEL and "heads" not in run.tables:
        label = NOT_JUDGED
    tier = "" if labels is None or labels.empty else str(labels["tier"].iloc[0] or "")
    scores = _scores(run, head)
    leading = (
        label
        if label not in (NO_LABEL, NOT_JUDGED)
        else next((row["role"] for row in scores), None)
    )
    stored = [*samples, *samples_of_head(run.folder, name)]
    missing = list(run.missing())
    if not stored:
        missing.append(("examples of this head", f"rolecall head RUN {name} --model"))
    return Dossier(
        name=name,
        head=head,
        label=label,
        tier=tier,
        reasons=_reasons(run, head),
        scores=scores,
        effects=_effects(run, head),
        weights=_weights(run, head),
        fed_by=_edges(run, head, ("layer", "head"), ("from_layer", "from_head")),
        feeds=_edges(run, head, ("from_layer", "from_head"), ("layer", "head")),
        templates=_templates(run, head, leading),
        samples=tuple(stored),
        missing=tuple(missing),
    )


def _of(rows: pd.DataFrame | None, head: tuple[int, int]) -> pd.DataFrame:
    if rows is None:
        return pd.DataFrame()
    return rows[(rows["layer"] == head[0]) & (rows["head"] == head[1])]


def _scores(run: Run, head: tuple[int, int]) -> tuple[Row, ...]:
    rows = _of(run.table("scores"), head)
    if rows.empty:
        return ()
    rows = rows.assign(sure=significant(rows))
    return _plain(rows.sort_values(["sure", "margin"], ascending=False, kind="stable"))


def _effects(run: Run, head: tuple[int, int]) -> tuple[Row, ...]:
    effects = run.table("effects")
    if effects is None or effects.empty:
        return ()
    rows = _of(primary(effects), head)
    if "scores" in run.tables:
        own = _of(judged_effects(run), head).dropna(subset="task")
        rows = with_p(rows, own)
        own = own.drop_duplicates("task")[["task", "ratio"]]
        rows = rows.merge(own, on="task", how="left")
    else:
        rows = rows.assign(p=rows["p_max"], ratio=None)
    rows = rows.assign(cannot=rows["task"].map(not_done(run)))
    order = rows["total"].astype(float).abs().sort_values(ascending=False, kind="stable").index
    return _plain(rows.loc[order])


def _reasons(run: Run, head: tuple[int, int]) -> tuple[tuple[str, str, str], ...]:
    held = _of(run.table("verdicts"), head)
    if not held.empty:
        rows = held.sort_values(["tier", "role"], kind="stable")[["role", "tier", "reasons"]]
        return tuple((str(role), str(tier), str(why or "")) for role, tier, why in rows.to_numpy())
    near = _of(run.table("near_misses"), head)
    return tuple((str(r["role"]), "", str(r["reasons"])) for r in near.to_dict("records"))


def _weights(run: Run, head: tuple[int, int]) -> dict[str, float]:
    rows = _of(run.table("weights"), head)
    names = [n for n in ("ov_copying", "ov_copying_rank", "qk_previous_token") if n in rows]
    found = {n: rows[n].iloc[0] for n in names if len(rows)}
    return {n: float(value) for n, value in found.items() if pd.notna(value)}


def _edges(
    run: Run, head: tuple[int, int], here: tuple[str, str], there: tuple[str, str]
) -> tuple[tuple[str, str, float], ...]:
    rows = run.table("composition")
    if rows is None or rows.empty:
        return ()
    mine = rows[(rows[here[0]] == head[0]) & (rows[here[1]] == head[1]) & (rows["excess"] > 0)]
    top = mine.sort_values("excess", ascending=False, kind="stable").head(6)
    return tuple(
        (head_name(layer, number), str(kind), float(excess))
        for layer, number, kind, excess in top[[*there, "kind", "excess"]].to_numpy()
    )


def _templates(run: Run, head: tuple[int, int], role: str | None) -> tuple[tuple[str, float], ...]:
    """Mean score of each template of a role, best first, from the raw evidence."""
    path = run.folder / "evidence" / f"{role}.parquet"
    if role is None or not path.is_file():
        return ()
    evidence = open_evidence(path)
    if head not in evidence.heads:
        return ()
    column, kind = evidence.heads.index(head), evidence.facts.get("score_kind", "mass")
    parts = [
        pd.DataFrame({"template": [r.template for r in b.rows], "twin": [r.twin for r in b.rows]})
        .assign(score=(b.mass if kind == "mass" else b.hit)[:, column])
        for b in evidence.blocks()
    ]  # fmt: skip
    rows = pd.concat(parts)
    means = rows[~rows["twin"]].groupby("template")["score"].mean()
    ordered = means.sort_values(ascending=False, kind="stable")
    return tuple((str(name), float(score)) for name, score in ordered.items())


def _plain(rows: pd.DataFrame) -> tuple[Row, ...]:
    return tuple(
        {str(k): None if v is None or v is pd.NA or v != v else v for k, v in row.items()}
        for row in rows.to_dict("records")
    )
