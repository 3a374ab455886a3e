"""From a run folder to labels: what is found, what is said of the rest, and what may be missing."""

import hashlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from rolecall.analyses.effects import DAMAGE
from rolecall.analyses.labels import NO_LABEL, near_misses
from rolecall.analyses.own_task import DAMAGE as NAME_OF_DAMAGE
from rolecall.analyses.tables import read_table
from rolecall.analyses.tiers import Thresholds
from rolecall.analyses.verdict import verdict
from rolecall.reports.cli import main
from tests.synthetic_run import SHAPE, effects_of, make_run


def by_offset(row):
    """A previous-token head: right only where the target happens to stand one to the left."""
    return (0.85, 0.1) if row.offsets == (-1,) else (0.05, 0.1)


LOOKS = {
    "previous_token": {(0, 1): (0.85, 0.1), (0, 0): (0.02, 0.95)},
    "first_token": {(0, 0): (0.95, 0.95), (1, 2): (0.9, 0.9), (1, 0): (0.85, 0.85)},
    "induction": {(1, 2): (0.7, 0.2), (0, 0): (0.02, 0.95), (0, 1): by_offset},
    "subject_verb": {(1, 3): (0.6, 0.2), (0, 0): (0.02, 0.95), (0, 1): by_offset},
}
EFFECTS = {
    "second_copy": {(1, 2): 1.8, (0, 1): 3.0, (0, 3): 2.0},
    "continuation": {(0, 1): 0.5, (0, 3): 2.0},
    "agreement": {(1, 3): 0.4, (0, 3): 0.8},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return make_run(folder, LOOKS, effects=effects_of(EFFECTS, damage={(0, 3): 1.5}))


@pytest.fixture(scope="module")
def found(run):
    return verdict(run, n_resamples=200)


def label(found, head):
    rows = found.heads.set_index(["layer", "head"])
    return rows.loc[head, "label"], rows.loc[head, "tier"]


def test_each_head_gets_its_role_and_tier(found):
    assert label(found, (0, 0)) == ("first_token", "C")
    assert label(found, (0, 1)) == ("previous_token", "B")  # second_copy loses more than its own
    assert label(found, (1, 2)) == ("induction", "A")
    assert label(found, (1, 3)) == ("subject_verb", "A")


def test_an_effect_on_every_task_gives_no_role(found):
    assert label(found, (0, 3)) == (NO_LABEL, "D")
    said = found.verdicts.query("layer == 0 and head == 3")["reasons"]
    assert all("but no head of this role" in why for why in said)
    assert said.str.contains("damage to unrelated text").any()


def test_a_helper_shows_its_effect_on_the_task_of_another_role(found):
    row = found.verdicts.query("layer == 0 and head == 1 and role == 'induction'").iloc[0]
    assert row["tier"] == "D"
    assert "costs 3.00 of second_copy loss" in row["reasons"]
    own = found.verdicts.query("layer == 0 and head == 1 and role == 'previous_token'").iloc[0]
    assert "it matters most to second_copy, which loses 3.00 without it" in own["reasons"]


def test_resting_on_the_first_position_is_no_sink_where_a_head_wakes_up(found):
    assert label(found, (1, 0))[0] == NO_LABEL
    assert "rests only" in reason_for(found, (1, 0))


def reason_for(found, head):
    return found.near_misses.set_index(["layer", "head"]).loc[head, "reasons"]


def test_every_head_without_a_label_says_what_it_lacks(found):
    without = found.heads[found.heads["label"] == NO_LABEL]
    assert len(found.near_misses) == len(without)
    assert found.near_misses["reasons"].str.len().min() > 0


def test_an_offset_head_is_not_called_by_the_content_it_happens_to_hit(tmp_path):
    """It is right wherever the subject stands one to the left, and a little elsewhere."""

    def mostly_before(row):
        return (0.9, 0.05) if row.offsets == (-1,) else (0.47, 0.1)

    looks = {"previous_token": {(0, 1): (0.85, 0.1)}, "induction": {(0, 1): mostly_before}}
    found = verdict(make_run(tmp_path, looks), n_resamples=200)
    roles = found.heads.set_index(["layer", "head"]).loc[(0, 1), "roles"]
    assert roles.startswith("previous_token")
    both = found.verdicts.query("layer == 0 and head == 1").set_index("role")
    assert "induction" in both.index  # 0.47 elsewhere is above the 0.40 that is needed
    weaker = {**looks, "induction": {(0, 1): by_offset}}
    alone = verdict(make_run(tmp_path / "weaker", weaker), n_resamples=200)
    assert alone.heads.set_index(["layer", "head"]).loc[(0, 1), "roles"] == "previous_token (C)"


def test_heads_csv_has_the_columns_of_the_design_and_one_row_a_head(run, found):
    table = pd.read_csv(run / "heads.csv")
    names = ["layer", "head", "kv_group", "label", "tier", "roles", "score", "margin", "total"]
    assert list(table.columns) == [*names, "direct", "sink"]
    assert list(table[["layer", "head"]].itertuples(index=False, name=None)) == SHAPE
    assert (table["kv_group"] == table["head"] // 2).all()
    assert read_table(run, "verdicts").columns[:5].tolist() == [
        "layer", "head", "role", "tier", "reasons",
    ]  # fmt: skip
    assert set(found.verdicts["tier"]) <= set("ABCDE")
    order = read_table(run, "verdicts")[["role", "layer", "head"]]
    assert order.equals(order.sort_values(["role", "layer", "head"], ignore_index=True))


def test_the_same_run_twice_gives_the_same_bytes(run, found):
    names = ("verdicts.parquet", "heads.csv", "near_misses.csv", "sensitivity.csv")
    before = {name: hashlib.sha256((run / name).read_bytes()).digest() for name in names}
    verdict(run, n_resamples=200)
    after = {name: hashlib.sha256((run / name).read_bytes()).digest() for name in names}
    assert before == after
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["settings"]["verdict"]["min_margin"] == 0.10


def test_thresholds_move_labels_and_the_sweep_counts_them(run, found):
    strict = verdict(run, Thresholds(min_margin=0.65), n_resamples=200)
    assert label(strict, (1, 2))[0] == NO_LABEL
    rows = found.sensitivity
    assert set(rows["threshold"]) >= {"alpha", "min_margin", "min_consistency", "score_scale"}
    moved = rows.groupby("threshold")["moved_to"].agg(["min", "max"])
    assert moved.loc["min_margin"].tolist() == pytest.approx([0.075, 0.125])
    assert moved.loc["min_consistency", "max"] == 1.0
    by_hand = verdict(run, Thresholds(score_scale=1.25), n_resamples=200).heads["label"]
    flips = rows.query("threshold == 'score_scale' and moved_to > 1")["flips"].item()
    again = verdict(run, n_resamples=200).heads["label"]
    assert flips == (by_hand != again).sum()


def test_permuting_heads_permutes_labels(tmp_path):
    turned = {
        role: {(layer, 3 - head): told for (layer, head), told in heads.items()}
        for role, heads in LOOKS.items()
    }
    one = verdict(make_run(tmp_path / "one", LOOKS), n_resamples=100).heads
    other = verdict(make_run(tmp_path / "other", turned), n_resamples=100).heads
    label_of = other.set_index(["layer", "head"])["label"]
    expected = [label_of[layer, 3 - head] for layer, head in SHAPE]
    assert one["label"].tolist() == expected


def test_missing_tables_are_named_with_what_was_not_decided(tmp_path):
    found = verdict(make_run(tmp_path, LOOKS), n_resamples=100)
    said = "\n".join(found.notes)
    assert "no effects.parquet" in said
    assert "not decided: whether any role matters to the model" in said
    assert "no weights.parquet" in said
    assert "role first_token has no task (it rests)" in said
    assert label(found, (1, 2)) == ("induction", "C")
    assert (
        "no effects were measured" in found.verdicts.set_index("role").loc["induction", "reasons"]
    )


def test_a_foreign_table_is_said_and_left_out(tmp_path):
    folder = make_run(tmp_path, LOOKS)
    pd.DataFrame({"a": [1]}).to_parquet(folder / "effects.parquet")
    said = "\n".join(verdict(folder, n_resamples=100).notes)
    assert "is not rolecall's effects table" in said


@pytest.mark.parametrize("name", ["scores.parquet", "effects.parquet", "manifest.json"])
def test_what_cannot_be_read_does_not_pass_for_what_was_not_measured(run, tmp_path, name):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    verdict(folder, n_resamples=100)
    before = (folder / "verdicts.parquet").read_bytes()
    (folder / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.raises(ValueError, match=name):
        verdict(folder, n_resamples=100)
    assert (folder / "verdicts.parquet").read_bytes() == before


def test_without_evidence_labels_stand_but_their_stability_is_not_decided(tmp_path):
    folder = make_run(tmp_path, LOOKS)
    (folder / "evidence" / "induction.parquet").unlink()
    found = verdict(folder, n_resamples=100)
    assert any("how stable induction is" in note for note in found.notes)
    assert label(found, (1, 2))[0] == "induction"
    assert found.verdicts.set_index("role").loc["induction", "stability"] is not None
    assert np.isnan(found.verdicts.set_index("role").loc["induction", "stability"])


def test_without_any_evidence_labels_stand(tmp_path):
    folder = make_run(tmp_path, LOOKS)
    for file in (folder / "evidence").iterdir():
        file.unlink()
    found = verdict(folder, n_resamples=100)
    assert label(found, (1, 2))[0] == "induction"
    assert dict(found.jaccard) == {}


def test_a_run_in_which_no_head_does_anything_has_no_label(tmp_path):
    found = verdict(make_run(tmp_path, {"induction": {}, "previous_token": {}}), n_resamples=100)
    assert (found.heads["label"] == NO_LABEL).all()
    assert found.verdicts.empty
    assert len(found.near_misses) == 8
    assert len(read_table(tmp_path, "verdicts")) == 0


def test_too_few_templates_decide_nothing(tmp_path):
    found = verdict(make_run(tmp_path, LOOKS, n_templates=3), n_resamples=100)
    assert any("3 templates, an interval needs 4" in note for note in found.notes)
    assert (found.heads["label"] == NO_LABEL).all()


def test_nothing_can_be_decided_without_scores(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["verdict", str(tmp_path)])
    assert stop.value.code == 2
    assert "no scores.parquet; run `rolecall scan` first" in capsys.readouterr().err


def test_a_run_that_is_no_folder_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["verdict", str(tmp_path / "nowhere")])
    assert stop.value.code == 2
    assert "is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--alpha=0", "--alpha=1", "--min-margin=-1", "--resamples=5"])
def test_senseless_thresholds_are_refused(run, option, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["verdict", str(run), option])
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_command_prints_counts_leaders_and_the_share_without_a_label(run, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["verdict", str(run), "--resamples=100"])
    assert stop.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "L1H2 A 0.70, effect +1.80" in out
    assert "4 of 8 heads (50 %) have no clean label" in out
    assert "Labels that flip when a threshold is moved" in out


def test_no_torch_is_loaded(run):
    code = (
        "import sys; from pathlib import Path; from rolecall.analyses.verdict import verdict; "
        f"verdict(Path({str(run)!r}), n_resamples=50); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_generic_damage_has_one_name():
    assert NAME_OF_DAMAGE == DAMAGE


def test_the_nearest_miss_is_the_role_that_fails_the_fewest_rules():
    judged = pd.DataFrame(
        {
            "role": ["a", "b", "c"], "layer": 0, "head": 0, "tier": None, "score": 0.3, "level": 3,
            "failed": ["score chance", "margin", "margin"], "margin": [0.5, 0.04, 0.06],
            "margin_low": [0.5, 0.02, 0.03], "needed": 0.4,
        }
    )  # fmt: skip
    row = near_misses(judged).iloc[0]
    assert row["role"] == "c"
    assert row["reasons"] == "margin at least 0.03, needs 0.10"
