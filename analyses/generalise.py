"""A blind check: syntactic labels from crafted sentences tried on a treebank they never saw.

Each role stands for one relation of Universal Dependencies. Accuracy, the best simpler account
(modal offset, nearest …) chosen on half of the sentences' length bins, and the margin with its
interval, for the heads that carry the label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rolecall.analyses.evidence import Evidence, EvidenceWriter, open_evidence
from rolecall.analyses.labels import LABELS
from rolecall.analyses.manifest import describe, digest, model_digest
from rolecall.analyses.models import Model
from rolecall.analyses.scan import batches, read_batch, tokens_a_batch
from rolecall.analyses.score_table import Settings, score_role
from rolecall.analyses.tables import replace_file
from rolecall.probes.base import Crafted, Probe
from rolecall.probes.treebank import treebank_probes

Progress = Callable[[str, int, int], None]
"""Called with the relation, the sentences done and the sentences in all."""

RELATIONS = {
    "subject_verb": "nsubj_of",
    "verb_object": "obj",
    "determiner": "det_of",
    "adjective": "amod_of",
    "auxiliary": "aux_of",
    "subject_to_verb": "nsubj",
    "verb_to_object": "obj_of",
    "determiner_to_noun": "det",
    "adjective_to_noun": "amod",
    "auxiliary_to_verb": "aux",
}
"""Role → the treebank's role: `nsubj` goes from the dependent to its head, `nsubj_of` back."""

COLUMNS = ["role", "relation", "treebank", "layer", "head", "tier", "accuracy", "ci_low", "ci_high"]
COLUMNS += [
    "modal_offset",
    "offset_accuracy",
    "baseline",
    "baseline_name",
    "margin",
    "margin_low",
    "n_links",
    "n_examples",
    "holds",
]


@dataclass(frozen=True)
class Blind:
    """How the check is made: sentences a relation, the margin asked for, and the seed."""

    n: int = 200
    min_margin: float = 0.10
    seed: int = 0


def generalise(
    model: Model,
    verdicts: pd.DataFrame,
    treebank: Path,
    *,
    out: Path,
    blind: Blind | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """One row for each labelled head of a syntactic role, as it does on the treebank.

    `holds` says that the margin reaches `min_margin` and its interval excludes zero. Written to
    generalisation.csv in `out`; relations that no labelled head needs are not run.

    Raises:
        ValueError: The treebank cannot be read.
    """
    blind = blind or Blind()
    labelled = verdicts[verdicts["tier"].isin(LABELS) & verdicts["role"].isin(RELATIONS)]
    probes = {probe.name: probe for probe in treebank_probes(treebank)}
    parts = []
    for role, heads in labelled.groupby("role", sort=True):
        probe = probes.get(RELATIONS[str(role)])
        data = None if probe is None else probe.dataset(model.aligner, n=blind.n, seed=blind.seed)
        if probe is None or data is None or not data.examples:
            continue
        path = out / "generalise" / f"{probe.name}.parquet"
        evidence = _gathered(model, probe, data, path=path, progress=progress)
        rows = score_role(
            evidence,
            probe,
            group_size=model.n_heads // model.n_kv_heads,
            settings=Settings(n_permutations=99, seed=blind.seed),
        ).rows
        rows = rows.drop(columns="role").rename(columns={"score": "accuracy"})
        found = heads[["role", "layer", "head", "tier"]].merge(rows, on=["layer", "head"])
        offset, share = modal_offset(evidence)
        named = {"relation": probe.name, "treebank": Path(treebank).name}
        parts.append(found.assign(**named, modal_offset=offset, offset_accuracy=share))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)
    table["holds"] = (table["margin"] >= blind.min_margin) & (table["margin_low"] > 0)
    table = table.sort_values(["role", "layer", "head"], ignore_index=True)[COLUMNS]
    replace_file(
        out / "generalisation.csv",
        lambda file: table.to_csv(file, index=False, lineterminator="\n", float_format="%.6g"),
    )
    return table


def modal_offset(evidence: Evidence) -> tuple[int, float]:
    """The distance in words at which the target stands most often, and how often that is.

    Chosen on the links it is tried on, so it flatters the baseline, never the head.
    """
    rows = evidence.rows()
    counted = Counter(offset for row in rows for offset in row.offsets)
    offset, times = counted.most_common(1)[0]
    return offset, times / len(rows)


def _gathered(
    model: Model, probe: Probe, data: Crafted, *, path: Path, progress: Progress | None
) -> Evidence:
    """The relation's evidence, run only if it is not there already for this model and data."""
    fingerprint = digest([model_digest(describe(model)), digest(data.examples)])
    try:
        there = open_evidence(path)
        if there.facts.get("fingerprint") == fingerprint:
            return there
    except ValueError:
        pass
    heads = [(layer, head) for layer in model.pattern_layers for head in range(model.n_heads)]
    facts = {"role": probe.name, "score_kind": probe.score_kind, "fingerprint": fingerprint}
    done = 0
    with EvidenceWriter(path, heads, facts) as writer:
        for batch in batches(data.examples, tokens_a_batch(model)):
            writer.append(read_batch(model, probe.score_kind, batch, heads))
            done += len(batch)
            if progress is not None:
                progress(probe.name, done, len(data.examples))
    return open_evidence(path)
