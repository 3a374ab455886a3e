"""Each line of the tables of rules: what is asked, at which bound, and which tier comes of it."""

import re

import numpy as np
import pandas as pd
import pytest

from rolecall.analyses.equivalence import equivalence_p
from rolecall.analyses.hierarchy import CONTENT, KIND, OFFSET, SINK, account, level
from rolecall.analyses.judge import Context, judge, label_heads
from rolecall.analyses.labels import NO_LABEL, head_table
from rolecall.analyses.tiers import NEEDED, PATTERN, TIERS, Thresholds, tier_of

GOOD = {
    "role": "induction", "family": "induction", "layer": 1, "head": 2, "kv_group": 1,
    "score_kind": "mass", "score": 0.8, "ci_low": 0.75, "ci_high": 0.85, "chance": 0.1,
    "baseline": 0.2, "baseline_name": "offset -3", "margin": 0.6, "margin_low": 0.55,
    "specificity": 0.7, "specificity_low": 0.6, "consistency": 1.0, "off_baseline": 0.8,
    "sink": 0.1, "sink_adjusted": 0.9, "p_value": 0.001, "p_max": 0.001, "q_value": 0.001,
    "n_links": 100, "n_examples": 50, "n_templates": 8,
}  # fmt: skip
OTHER = {**GOOD, "role": "subject_verb", "family": "syntactic", "score": 0.1, "ci_low": 0.05,
         "margin": -0.1, "margin_low": -0.15, "p_max": 0.9, "score_kind": "hit"}  # fmt: skip
TASKS = {"induction": "second_copy", "subject_verb": "agreement"}
EFFECT = {
    "task": "second_copy", "layer": 1, "head": 2, "kv_group": 1, "ablation": "mean",
    "metric": "loss", "clean": 0.5, "total": 1.8, "total_low": 1.6, "total_high": 2.0,
    "direct": 1.5, "indirect": 0.3, "self_repair": np.nan, "p_value": 0.001, "p_max": 0.001,
    "q_value": 0.001, "generic_damage": 0.02, "n_items": 50,
}  # fmt: skip


def scores(**changes):
    return pd.DataFrame([{**GOOD, **changes}, OTHER])


def effects(*, elsewhere=0.1, **changes):
    agreement = {**EFFECT, "task": "agreement", "metric": "logit_difference", "clean": 2.0}
    other = {**agreement, "total": elsewhere, "total_low": -1.0, "total_high": 1.0, "p_max": 0.9}
    return pd.DataFrame([{**EFFECT, **changes}, other])


def tier(table, shown=None, weights=None, **thresholds):
    found = label_heads(table, shown, weights, Thresholds(**thresholds), Context(TASKS))
    rows = found[found["role"] == "induction"]
    return (rows["tier"].iloc[0], rows["reasons"].iloc[0]) if len(rows) else (None, "")


def test_pattern_with_a_specific_effect_is_tier_a():
    found, why = tier(scores(), effects())
    assert found == "A"
    assert "puts 0.80 of its attention on what followed the earlier copy" in why
    assert "0.20 at the modal offset (−3)" in why
    assert "8 of 8 templates" in why
    assert "costs 1.80 of second_copy loss" in why
    assert "36.0 × its effect on other tasks" in why  # 1.8 nats against 0.1 / 2.0


@pytest.mark.parametrize(
    ("shown", "expected", "says"),
    [
        (effects(elsewhere=2.0), "B", "1.8 × its effect on other tasks"),
        (effects(generic_damage=1.0), "B", "1.8 × its damage to unrelated text"),
        (None, "C", "no effects were measured"),
        (effects(total=0.03, total_low=-0.2, total_high=0.26, p_max=0.8), "C", "by 50 items"),
        (effects(total=0.01, total_low=0.0, total_high=0.02, p_max=0.8), "C", "negligible"),
        (effects(total=0.02, total_low=0.015, total_high=0.025), "C", "negligible"),
        (
            effects(total=0.02, total_low=-0.3, total_high=0.3, p_max=0.8, self_repair=0.9),
            "C",
            "it writes 1.50 of second_copy loss (nats) directly, and later layers make up for 90 %",
        ),
        (effects(total=-0.6, total_low=-0.8, total_high=-0.4), "E", "works against the task"),
        (effects(p_value=0.06, p_max=0.2), "C", "not decided"),
        (effects(interpretable=False), "C", "the model does not do second_copy"),
        (effects(task="another"), "C", "task second_copy was not run"),
        (effects(layer=0), "C", "not ablated on second_copy"),
    ],
)  # fmt: skip
def test_the_effect_decides_between_the_tiers_of_a_pattern(shown, expected, says):
    found, why = tier(scores(), shown)
    assert found == expected
    assert says in why


@pytest.mark.parametrize(
    ("direct", "total", "says"),
    [
        ((0.60, 0.50, 0.70), (0.02, -0.30, 0.30), "later layers make up for 97 %"),
        ((0.60, 0.50, 0.70), (0.01, 0.00, 0.02), "later layers make up for 98 %"),
        ((-0.60, -0.70, -0.50), (0.02, -0.30, 0.30), "later layers make up for"),
        # Next to nothing is made up for: the items are too few.
        ((0.60, 0.50, 0.70), (0.5994, -0.20, 1.40), "not decided by 50 items"),
        # So wide an interval would have hidden the direct effect too.
        ((0.60, 0.50, 0.70), (-0.40, -1.20, 0.40), "not decided by 50 items"),
        ((0.60, 0.01, 1.20), (0.02, -0.30, 0.30), "not decided by 50 items"),
        # What it writes is not surely more than negligible.
        ((0.06, 0.04, 0.08), (0.01, 0.00, 0.02), "shown to be negligible"),
    ],
)
def test_an_effect_is_hidden_only_where_it_would_be_seen_without_the_repair(direct, total, says):
    shown = effects(
        **dict(zip(("direct", "direct_low", "direct_high"), direct, strict=True)),
        **dict(zip(("total", "total_low", "total_high"), total, strict=True)),
        p_value=0.4,
        p_max=0.8,
        self_repair=1 - total[0] / direct[0],
    )
    found, why = tier(scores(), shown)
    assert found == "C"
    assert says in why


def test_numbers_in_reasons_have_one_sign_and_no_negative_zero():
    negative = effects(total=-0.001, total_low=-0.2, total_high=0.26, p_max=0.8, p_value=0.8)
    said = [
        tier(scores(), negative)[1],
        tier(scores(margin_low=-0.05), effects())[1],
        tier(scores(), effects(total=-0.6, total_low=-0.8, total_high=-0.4))[1],
    ]
    assert "0.00 [−0.20, 0.26]" in said[0]
    assert "margin at least −0.05, needs 0.10" in said[1]
    for why in said:
        assert not re.search(r"(?<!\w)-\d|−0\.0+(?!\d)", why)


def test_an_effect_that_a_pattern_asked_for_is_one_question_and_not_a_search():
    assert tier(scores(), effects(p_value=0.01, p_max=0.4))[0] == "A"
    assert tier(scores(ci_low=0.2), effects(p_value=0.01, p_max=0.4))[0] is None


def test_effects_that_several_patterns_asked_for_share_the_error_rate():
    many = pd.concat([scores(head=head) for head in range(2, 5)], ignore_index=True)
    shown = pd.concat([effects(head=head, p_value=0.02, p_max=0.4) for head in range(2, 5)])
    judged = label_heads(many, shown.drop_duplicates(), context=Context(TASKS))
    assert set(judged.query("role == 'induction'")["tier"]) == {"C"}
    sure = shown.assign(p_value=0.01).drop_duplicates()
    judged = label_heads(many, sure, context=Context(TASKS))
    assert set(judged.query("role == 'induction'")["tier"]) == {"A"}


def test_an_effect_without_the_pattern_never_gives_the_name():
    table = scores(ci_low=0.2)
    found, why = tier(table, effects())
    assert found == "D"
    assert "score at least 0.20, needs 0.40" in why
    heads = head_table(judge(table, effects(), context=Context(TASKS)))
    assert heads.loc[0, ["label", "tier"]].tolist() == [NO_LABEL, "D"]
    assert heads["roles"].isna().all()
    assert heads[["score", "total", "direct"]].isna().all().all()


@pytest.mark.parametrize(
    "short",
    [
        {"ci_low": 0.40},
        {"ci_low": np.nan},
        {"p_max": 0.05},
        {"p_max": np.nan},
        {"margin_low": 0.099},
        {"consistency": 0.89},
        {"off_baseline": 0.39},
        {"off_baseline": np.nan},
        {"sink": 0.90},
        {"n_templates": 3},
    ],
)
def test_every_rule_alone_takes_the_label_away(short):
    assert tier(scores(**short))[0] is None


def test_a_margin_of_exactly_ten_points_is_enough():
    assert tier(scores(margin_low=0.1))[0] == "C"


def test_a_pattern_that_does_not_prefer_its_target_to_rivals_is_tier_c_at_best():
    found, why = tier(scores(specificity_low=-0.01), effects())
    assert found == "C"
    assert "not shown to prefer its target to the rivals" in why


def test_weights_that_do_not_copy_cost_an_induction_head_its_first_tier():
    weights = pd.DataFrame({"layer": [1], "head": [2], "ov_copying_rank": [0.3]})
    assert tier(scores(), effects(), weights)[0] == "B"
    assert tier(scores(), effects(), weights.assign(ov_copying_rank=0.9))[0] == "A"
    assert tier(scores(), effects(), weights.assign(head=3))[0] == "A"


def test_mean_comes_before_resample_and_zero():
    zero = effects(ablation="zero", total=9.0, total_low=8.0, total_high=10.0)
    both = pd.concat([zero, effects()])
    assert "costs 1.80" in tier(scores(), both)[1]
    assert "(zero ablation" in tier(scores(), zero)[1]


def test_sets_and_groups_of_heads_are_no_heads():
    heads = pd.concat([effects(heads="L1H2+L1H3"), effects(head=None, heads="L1H2")])
    assert tier(scores(), heads)[0] == "C"


def test_a_sink_gives_way_to_any_other_role_and_rests_on_every_roles_links():
    sink = {**GOOD, "role": "first_token", "family": "positional", "score": 0.95, "ci_low": 0.9}
    table = pd.DataFrame([GOOD, OTHER, sink])
    heads = head_table(judge(table, context=Context(TASKS)))
    assert heads["label"].tolist() == ["induction"]
    awake = pd.DataFrame([{**OTHER, "sink": 0.3}, sink])
    assert label_heads(awake).empty
    asleep = pd.DataFrame([{**OTHER, "sink": 0.95}, sink])
    assert label_heads(asleep)["role"].tolist() == ["first_token"]


def test_a_better_tier_leads_then_the_simpler_account():
    table = pd.DataFrame([GOOD, {**GOOD, "role": "duplicate_token", "score": 0.6}])
    assert head_table(judge(table))["label"].tolist() == ["duplicate_token"]
    heads = head_table(judge(table, effects(), context=Context(TASKS)))
    assert heads["label"].tolist() == ["induction"]
    assert heads["roles"].tolist() == ["induction (A); duplicate_token (C)"]


def test_the_hierarchy_goes_from_sink_to_content():
    order = [
        level("first_token", "positional"),
        level("previous_token", "positional"),
        level("duplicate_token", "induction"),
        level("induction", "induction"),
    ]
    assert order == [SINK, OFFSET, KIND, CONTENT]
    assert level("somebody_elses", "positional") == OFFSET
    assert account("previous_token", "even") == "offset -1"
    assert account("adjective", "offset -1 / even") == "offset -1"
    assert account("coreference", "nearest") is None


def test_the_tables_name_columns_and_bounds_that_exist():
    fields = set(Thresholds.__dataclass_fields__) | {"needed"}
    assert all(isinstance(r.bound, float) or r.bound in fields for r in PATTERN)
    assert [t.name for t in TIERS] == ["A", "B", "E", "C", "D"]
    assert all(0 < bound < 1 for bound in NEEDED.values())


def test_no_evidence_gives_no_tier():
    off, on = np.array([False]), np.array([True])
    facts = {"selective": on, "effect": np.array(["nothing"]), "specific": on, "consistent": on}
    assert tier_of({"pattern": off, **facts})[0] is None
    assert tier_of({"pattern": on, **facts})[0] == "C"


def test_equivalence_is_two_one_sided_tests():
    # Worked by hand: a standard error of 0.01 and 0.03 of room to the nearer bound: z = 3.
    low, high = 0.02 - 1.959964 * 0.01, 0.02 + 1.959964 * 0.01
    p = equivalence_p(*(np.array([x]) for x in (0.02, low, high, 0.05)))
    assert p[0] == pytest.approx(0.0013499, abs=1e-6)
    exact = equivalence_p(*(np.array(x) for x in ([0.0, 0.2], [0.0, 0.2], [0.0, 0.2], [0.1, 0.1])))
    assert exact.tolist() == [0.0, 1.0]
    unknown = equivalence_p(*(np.array([x]) for x in (0.02, np.nan, np.nan, 0.05)))
    assert np.isnan(unknown[0])


def test_equivalence_keeps_its_error_rate_at_the_edge_of_the_band():
    rng = np.random.default_rng(0)
    seen = 0.05 + 0.01 * rng.standard_normal(20_000)
    p = equivalence_p(seen, seen - 0.0196, seen + 0.0196, np.full_like(seen, 0.05))
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.006)
