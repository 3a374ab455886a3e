"""Examples kept with a run: chosen by the evidence, read as plain transformers would give them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rolecall.analyses.attention_sample import (
    LONGEST,
    Sample,
    look_at,
    look_at_text,
    read_samples,
    store_samples,
    typical_and_worst,
)
from rolecall.analyses.evidence import open_evidence
from rolecall.analyses.export import crafted_examples
from rolecall.analyses.models import Model, load_model
from rolecall.analyses.scan import scan
from rolecall.analyses.tables import read_table
from rolecall.probes.base import Example, Link
from rolecall.reports.attention_view import attention_views
from rolecall.reports.cli import main
from rolecall.reports.stored_samples import samples_of_head
from tests.plain_ablation import PROJECTIONS, z_of

ROLES = ("induction", "coreference")


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model()


@pytest.fixture(scope="module")
def run(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    scores = scan(model, ROLES, n=8, seed=0, out=folder).scores
    store_samples(model, scores, folder, n=8, seed=0)
    return folder


def stored(run: Path, role: str) -> list[dict]:
    return json.loads((run / "attention" / f"{role}.json").read_text(encoding="utf-8"))["examples"]


def test_the_leading_heads_are_seen_on_a_typical_example_and_the_best_on_its_worst(
    run: Path,
) -> None:
    for role in ROLES:
        rows = read_table(run, "scores").query(f"role == '{role}'")
        best = rows.sort_values("score", ascending=False, kind="stable")[["layer", "head"]]
        names = [f"L{layer}H{head}" for layer, head in best.to_numpy()[:3]]
        entries = stored(run, role)
        assert [entry["head"] for entry in entries] == [*names, names[0]]
        captions = [entry["caption"] for entry in entries]
        assert captions == ["on a typical example"] * 3 + ["on its worst example"]


def test_typical_is_the_median_and_worst_the_lowest(run: Path) -> None:
    evidence = open_evidence(run / "evidence" / "induction.parquet")
    head = (1, 1)
    column = evidence.heads.index(head)
    masses: dict[int, list[float]] = {}
    for block in evidence.blocks():
        for row, mass in zip(block.rows, block.mass[:, column], strict=True):
            if not row.twin:
                masses.setdefault(row.example, []).append(float(mass))
    means = {example: np.mean(values) for example, values in masses.items()}
    typical, worst = typical_and_worst(evidence, head)
    assert means[worst] == min(means.values())
    assert sorted(means.values())[len(means) // 2] == means[typical]


def test_patterns_and_writes_are_those_of_plain_transformers(model: Model, run: Path) -> None:
    entry = stored(run, "coreference")[0]
    layer, head = (int(part) for part in entry["head"][1:].split("H"))
    module = model.plain
    texts = {}
    for example in crafted_examples(model, "coreference", n=8, seed=0).examples:
        ids = list(example.token_ids)
        texts[model.tokenizer.decode(ids).replace(" ", "")] = ids
    ids = texts["".join(entry["tokens"]).replace(" ", "")]
    module.set_attn_implementation("eager")
    with torch.no_grad():
        attention = module(torch.tensor([ids]), output_attentions=True).attentions[layer][0, head]
    for query, row in enumerate(entry["pattern"]):
        assert len(row) == query + 1
        assert row == pytest.approx(attention[query, : query + 1].tolist(), abs=1e-4)
    query = entry["query"][-1]
    z = z_of(module, PROJECTIONS["llama"](module, layer), ids)[0, query]
    part = slice(head * model.d_head, (head + 1) * model.d_head)
    weight = PROJECTIONS["llama"](module, layer).weight[:, part]
    logits = module.lm_head((weight @ z[part]) * module.model.norm.weight)
    assert entry["raises"][0].strip() == model.tokenizer.decode(int(logits.argmax())).strip()
    assert entry["lowers"][0].strip() == model.tokenizer.decode(int(logits.argmin())).strip()


def test_of_a_long_text_only_the_query_is_kept(model: Model) -> None:
    ids = tuple(model.aligner.ordinary[: LONGEST + 10])
    link = Link(query=(LONGEST,), target=(3,))
    example = Example(ids, "long", ((3,),), (link,))
    (entries,) = read_samples(model, [Sample("r", "c", example, ((0, 0),))])
    kept = [position for position, row in enumerate(entries[0]["pattern"]) if row]
    assert kept == [LONGEST]
    assert len(entries[0]["pattern"]) == LONGEST + 10


def test_a_text_of_ones_own_can_be_looked_at(model: Model) -> None:
    entries = look_at_text(model, "Mary saw Tom and Mary saw", [(1, 1), (0, 5)])
    assert [entry["head"] for entry in entries] == ["L1H1", "L0H5"]
    assert "".join(entries[0]["tokens"]).endswith(" Mary saw")
    assert entries[0]["query"] == (len(entries[0]["tokens"]) - 1,)
    assert entries[0]["target"] == ()
    for entry in entries:
        assert sum(entry["pattern"][-1]) == pytest.approx(1, abs=1e-3)
    shown = attention_views(entries)._repr_html_()
    assert shown.count("<svg") == 2
    assert "L0H5 on this text" in shown
    assert attention_views(entries, matrix=True)._repr_html_().count("<rect") > 10


@pytest.mark.parametrize(
    ("text", "heads", "says"),
    [
        (" ", [(0, 0)], "no word in this text"),
        ("Tom " * 5000, [(0, 0)], "use a shorter text"),
        ("Tom saw", [(9, 0)], "has 4 layers"),
    ],
)
def test_what_cannot_be_looked_at_is_told(
    model: Model, text: str, heads: list[tuple[int, int]], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        look_at_text(model, text, heads)


def test_any_head_is_looked_at_anew_by_the_runs_own_model(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    every = [f"L{layer}H{head}" for layer in range(4) for head in range(8)]
    name = next(name for name in every if not samples_of_head(copy, name))
    with pytest.raises(SystemExit) as ended:
        main(["head", str(copy), name, "--model"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "on a typical example" in said
    assert f"{name} from" in said
    assert "raises" in said
    with pytest.raises(SystemExit):
        main(["head", str(copy), name])
    assert f"rolecall head RUN {name} --model" in capsys.readouterr().out


def test_examples_of_another_version_are_not_shown_as_the_runs(
    model: Model, run: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    path = copy / "manifest.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    whole["roles"]["induction"]["dataset_hash"] = "0"
    path.write_text(json.dumps(whole), encoding="utf-8")
    rows = read_table(copy, "scores").query("role == 'induction' and layer == 1 and head == 1")
    with pytest.raises(ValueError, match="scan again"):
        look_at(model, rows, copy, n=8, seed=0)
