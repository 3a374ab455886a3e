"""A label's stability: sure heads keep theirs, heads at a threshold lose it in half the draws."""

import numpy as np
import pytest

from rolecall.analyses.conditioning import lower_bound
from rolecall.analyses.evidence import open_evidence
from rolecall.analyses.judge import judge
from rolecall.analyses.score_table import Settings
from rolecall.analyses.stability import labels, stability
from rolecall.analyses.tables import read_table
from rolecall.analyses.tiers import Thresholds
from tests.synthetic_run import make_run

HEAD = ["layer", "head"]


def spread_out(row):
    """Certain in half of the templates, doubtful in the others."""
    return (0.9, 0.1) if int(row.template[1:]) % 2 else (0.3, 0.1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    looks = {"induction": {(1, 2): (0.8, 0.1), (0, 3): spread_out}}
    return make_run(tmp_path_factory.mktemp("run"), looks)


def measured(run, thresholds):
    judged = judge(read_table(run, "scores"), settings=thresholds)
    evidence = {"induction": open_evidence(run / "evidence" / "induction.parquet")}
    return judged, stability(judged, evidence, Settings(n_resamples=2000), thresholds)


def test_a_certain_head_keeps_its_label_and_an_idle_one_has_none_to_keep(run):
    _, found = measured(run, Thresholds())
    share = found.rows.set_index(HEAD)["stability"]
    assert share[1, 2] == 1.0
    assert (0, 0) not in share
    assert found.jaccard["induction"] == pytest.approx(found.jaccard["all"])


def test_a_head_just_at_the_bound_keeps_its_label_in_about_half_of_the_draws(run):
    scores = read_table(run, "scores").set_index(HEAD)
    low = scores.loc[(0, 3), "ci_low"]
    at = Thresholds(score_scale=low / 0.4 - 1e-6, min_margin=0.0, min_consistency=0.0)
    judged, found = measured(run, at)
    assert judged.set_index(HEAD).loc[(0, 3), "pattern"]
    assert found.rows.set_index(HEAD).loc[(0, 3), "stability"] == pytest.approx(0.5, abs=0.12)
    assert found.jaccard["induction"] < 1.0


def test_labels_follow_each_heads_own_order_of_roles():
    holds = np.array([[[True, True, False]], [[True, False, False]]])
    order = np.array([[1, 0, 0], [0, 1, 1]])
    assert labels(holds, order).tolist() == [[1, 0, -1]]


def test_what_is_left_of_a_score_is_that_on_the_links_the_account_misses(run):
    evidence = open_evidence(run / "evidence" / "induction.parquet")
    low = lower_bound(evidence, "offset -1", Settings(n_resamples=500))
    column = evidence.heads.index((1, 2))
    blocks = list(evidence.blocks())
    rows = [row for block in blocks for row in block.rows]
    mass = np.concatenate([block.mass for block in blocks])[:, column]
    keep = np.array([-1 not in row.offsets for row in rows])
    assert mass[keep].mean() - 0.02 < low[column] < mass[keep].mean()
    assert (lower_bound(evidence, "position 0", Settings(n_resamples=50)) > 0).all()


def test_an_account_that_explains_every_link_leaves_nothing(tmp_path):
    run = make_run(tmp_path, {"previous_token": {(0, 1): (0.8, 0.1)}})
    evidence = open_evidence(run / "evidence" / "previous_token.parquet")
    assert (lower_bound(evidence, "offset -1", Settings(n_resamples=50)) == 0).all()
