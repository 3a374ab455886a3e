"""Right tiers follow from how a model was built, and the check that compares them can fail."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from rolecall.analyses import judge, own_task
from rolecall.analyses.planted import HELPERS, Design
from rolecall.analyses.planted_designs import build
from rolecall.analyses.planted_tasks import LEAST, asked, planted_tasks
from rolecall.analyses.planted_truth import NONE, cost, right_tiers
from rolecall.analyses.planted_variants import COPIED, VARIANTS, also_for, gain_of, speaks_for
from rolecall.analyses.planted_verdict import scored
from rolecall.analyses.precision import by_verdict, compared

SEATS = {
    (0, 0): "previous_token",
    (0, 1): "governed",
    (0, 2): "duplicate_token",
    (0, 3): "current_token",
    (1, 0): "induction",
    (1, 1): "subject_verb",
    (1, 2): "against subject_verb",
    (1, 3): "broad previous_token",
    (2, 0): "mute induction",
    (2, 1): "nearest_noun",
    (2, 2): "delimiter",
    (2, 3): "rare_token",
}


def design(seats, architecture="gpt2", **fields):
    votes = {"speaks_for": speaks_for(seats), "also_for": also_for(seats)}
    gains = {seat: gain_of(name) for seat, name in seats.items()}
    return Design(architecture, seats, n_layers=3, gains=gains, seed=1, **votes, **fields)


@pytest.fixture(scope="module")
def made():
    return build(design(SEATS))


def test_right_tiers_follow_from_votes_and_from_who_needs_whom(made):
    right = right_tiers(made[0])
    voted_on = ("duplicate_token", "induction", "subject_verb", "delimiter", "rare_token")
    assert right == {
        ((0, 0), "previous_token"): ("A",),
        ((0, 0), "induction"): ("D",),
        ((0, 1), "subject_verb"): ("D", "none"),
        ((0, 2), "duplicate_token"): ("A",),
        ((0, 3), "current_token"): ("C",),
        ((1, 0), "induction"): ("A",),
        ((1, 1), "subject_verb"): ("A",),
        ((1, 2), "subject_verb"): ("E",),
        ((1, 3), "previous_token"): ("B",),
        **{((1, 3), role): ("D",) for role in voted_on},
        ((2, 0), "induction"): ("C",),
        ((2, 2), "delimiter"): ("A",),
        ((2, 3), "rare_token"): ("A",),
    }
    assert right.get(((2, 1), "subject_verb"), NONE) == ("none",)


def test_costs_are_shares_of_what_all_votes_make(made):
    planted, _ = made
    assert cost(planted, (1, 1), "subject_verb") == pytest.approx(1 / 1.5)
    assert cost(planted, (1, 2), "subject_verb") == pytest.approx(-0.5 / 1.5)
    assert cost(planted, (0, 1), "subject_verb") == pytest.approx(0.5 / 1.5)
    assert cost(planted, (0, 0), "induction") == pytest.approx(1 / 2)
    assert cost(planted, (2, 1), "subject_verb") == 0


def test_where_no_other_task_is_left_alone_a_needed_head_is_not_specific():
    """Of the one other task, the induction head's, the previous-token head costs all."""
    few, _ = build(design({(0, 0): "previous_token", (1, 0): "induction"}))
    assert right_tiers(few)[(0, 0), "previous_token"] == ("B",)


def test_copies_need_the_helper_of_the_original():
    assert {name.partition(" ")[2] for name in VARIANTS} == set(COPIED)
    assert HELPERS["against bracket"] == HELPERS["bracket"] == "balance"


@torch.no_grad()
def differences(planted, task):
    """Answer over foil of each item, by plain forward passes."""
    found = []
    for item in task.items:
        ids = torch.tensor([item.token_ids])
        if planted.design.architecture == "bert":
            ids[0, item.position] = planted.mask
        logits = planted.model(ids).logits[0, item.position]
        found.append((logits[item.answer] - logits[item.foil]).item())
    return torch.tensor(found)


BOTH_WAYS = {s: n for s, n in SEATS.items() if "induction" not in n and n != "duplicate_token"}
SHAPES = {
    "gpt2": design(SEATS),
    "llama": design(SEATS, "llama", n_groups=2),
    "bert": design({**BOTH_WAYS, (2, 0): "coreference"}, "bert"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_planted_model_makes_of_a_task_is_the_sum_of_its_votes(shape):
    planted, model = build(SHAPES[shape])
    tasks = planted_tasks(planted, model.aligner, n=LEAST, seed=1)
    assert len(tasks) == len(asked(planted)) >= 5
    for task, seat in zip(tasks, asked(planted).values(), strict=True):
        whole = sum(planted.design.gain(s) for s in SEATS if seat in planted.design.voices(s))
        wanted = torch.full((LEAST,), whole)
        torch.testing.assert_close(differences(planted, task), wanted, atol=0.1, rtol=0.05)


def test_a_task_of_too_few_items_is_refused():
    planted, model = build(design({(0, 0): "previous_token"}))
    with pytest.raises(ValueError, match=r"'previous_token' needs 10 items and has \d"):
        planted_tasks(planted, model.aligner, n=LEAST - 1, seed=0)


def judged(planted, model):
    tasks = planted_tasks(planted, model.aligner, n=12, seed=7)
    return compared(planted, scored(model, 0, tasks), by_verdict)


@pytest.fixture(scope="module")
def rows(made):
    return judged(*made)


def test_every_kind_of_head_gets_its_tier(rows):
    assert rows["tier_right"].all(), rows[~rows["tier_right"]].to_string()
    assert {"A", "B", "C", "D", "E"} <= set(rows.loc[rows["right"] != "none", "tier"])
    assert rows["impostor"].any()
    assert (rows.loc[rows["impostor"], "tier"] == "none").all()


@pytest.mark.slow
def test_a_head_that_does_not_what_its_design_says_has_a_wrong_tier(made):
    """Truth of a model whose subject_verb heads write as built, asked of one where they do not."""
    planted, _ = made
    gains = {**planted.design.gains, (1, 1): -0.5, (1, 2): 2.0}
    other, model = build(replace(planted.design, gains=gains))
    rows = judged(replace(other, design=planted.design), model)
    wrong = rows[~rows["tier_right"]].set_index(["layer", "head"])
    assert wrong["tier"].to_dict() == {(1, 1): "E", (1, 2): "A"}


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["sign", "specificity", "pattern"])
def test_a_verdict_with_a_broken_rule_has_wrong_tiers(made, monkeypatch, broken):
    if broken == "sign":
        right = own_task._effect
        swap = {"helps": "harms", "harms": "helps"}
        monkeypatch.setattr(own_task, "_effect", lambda *a: [swap.get(e, e) for e in right(*a)])
        lost = {"A", "B", "D", "E"}
    elif broken == "specificity":
        monkeypatch.setattr(own_task, "_ratios", infinite)
        lost = {"B"}
    else:
        monkeypatch.setattr(judge, "pattern_holds", lambda columns, _: columns["level"] > 9)
        lost = {"A", "B", "C", "E"}
    rows = judged(*made)
    assert set(rows.loc[~rows["tier_right"], "right"]) - {"D or none"} == lost


def infinite(found):
    return dict.fromkeys(("total", "total_low"), pd.Series(float("inf"), found.index).to_numpy())
