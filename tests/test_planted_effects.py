"""Removing a planted head costs what it was built to give: checked by plain forward passes."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from einops import rearrange

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.models import load_model
from rolecall.analyses.planted import Design, plant
from rolecall.analyses.planted_tasks import vote_task
from rolecall.probes.base import Example, Link

WORDS = ["<s>", *(f"w{i}" for i in range(400))]
TOLERANCE = 0.01
SEATS = {
    (0, 1): "previous_token",
    (1, 0): "duplicate_token",
    (1, 3): "previous_token_only",
    (2, 2): "induction",
    (0, 3): "primary",
    (2, 1): "backup",
}
GAINS = {(0, 1): 1.5, (1, 0): 2.0, (1, 3): -0.75, (2, 2): 1.0, (0, 3): 1.0, (2, 1): 0.6}
DESIGN = Design(
    "gpt2",
    SEATS,
    n_layers=3,
    n_ctx=64,
    gains=GAINS,
    # The second previous-token head writes against the first, the backup for the primary.
    speaks_for={(1, 3): (0, 1), (2, 1): (0, 3)},
    seed=3,
)
MODELS = {
    "gpt2": DESIGN,
    "gpt2 with biases": replace(DESIGN, biased=True),
    "llama, grouped": replace(DESIGN, architecture="llama", n_groups=2),
    "llama, with biases": replace(DESIGN, architecture="llama", biased=True),
}


@pytest.fixture(scope="module", params=MODELS)
def planted(request):
    return plant(WORDS, 0, MODELS[request.param])


def examples(lag, n=12):
    """BOS, 12 random ids, the same again; a link from the second copy to `lag` before."""
    made = []
    for seed in range(n):
        drawn = torch.randperm(400, generator=torch.Generator().manual_seed(seed))[:12] + 1
        ids = (0, *drawn.tolist(), *drawn.tolist())
        links = (Link((20,), (20 - lag,)),)
        made.append(Example(ids, f"t{seed}", tuple((p,) for p in range(1, 25)), links))
    return made


LAGS = {"previous_token": 1, "duplicate_token": 12, "induction": 11, "primary": 1}


def output_map(model, layer):
    if centres(model):
        return model.transformer.h[layer].attn.c_proj
    return model.model.layers[layer].self_attn.o_proj


@contextmanager
def without(model, seat, n_heads):
    """Zeroes what one head hands to its output map, and notes what that was."""
    noted = {}

    def hook(module, args):
        z = rearrange(args[0], "b p (h d) -> b p h d", h=n_heads)
        noted["z"] = z[:, :, seat[1]].clone()
        z = z.clone()
        z[:, :, seat[1]] = 0
        return (rearrange(z, "b p h d -> b p (h d)"),)

    handle = output_map(model, seat[0]).register_forward_pre_hook(hook)
    try:
        yield noted
    finally:
        handle.remove()


@torch.no_grad()
def effects(planted, seat, task):
    """Mean total and direct effect of zeroing a head, the norm's scale held for the direct one."""
    model, n_heads, centred = planted.model, planted.design.n_heads, centres(planted.model)
    weight = output_map(model, seat[0]).weight
    rows = weight if centred else weight.T
    W_O = rearrange(rows, "(h d) m -> h d m", h=n_heads)[seat[1]]
    norm = model.transformer.ln_f if centred else model.model.norm
    ids = torch.tensor([item.token_ids for item in task.items])
    each, last = range(len(ids)), task.items[0].position
    answer, foil = ([getattr(i, which) for i in task.items] for which in ("answer", "foil"))
    seen = {}
    handle = norm.register_forward_pre_hook(lambda _m, args: seen.update(resid=args[0][:, last]))
    clean = model(ids).logits[:, last]
    handle.remove()
    with without(model, seat, n_heads) as noted:
        lost = clean - model(ids).logits[:, last]
    resid = seen["resid"] - centred * seen["resid"].mean(-1, keepdim=True)
    scale = norm.weight[0] / resid.square().mean(-1).sqrt()
    axis = model.lm_head.weight[answer] - model.lm_head.weight[foil]
    direct = scale * (noted["z"][:, last] @ W_O * axis).sum(-1)
    total = lost[each, answer] - lost[each, foil]
    return total.mean().item(), direct.mean().item()


def centres(model):
    return hasattr(model, "transformer")


@pytest.mark.parametrize("seat", [(0, 1), (1, 0), (2, 2)])
def test_removing_a_head_costs_its_gain_directly_and_in_all(planted, seat):
    task = vote_task(planted, seat, examples(LAGS[SEATS[seat]]))
    total, direct = effects(planted, seat, task)
    assert total == pytest.approx(GAINS[seat], rel=TOLERANCE)
    assert direct == pytest.approx(GAINS[seat], rel=TOLERANCE)


def test_heads_of_other_roles_do_nothing_to_a_task(planted):
    task = vote_task(planted, (1, 0), examples(12))
    for seat in planted.heads:
        if seat != (1, 0):
            assert effects(planted, seat, task) == pytest.approx((0, 0), abs=TOLERANCE)


def test_an_induction_task_needs_the_previous_token_head_it_reads_though_not_directly(planted):
    task = vote_task(planted, (2, 2), examples(11))
    total, direct = effects(planted, (0, 1), task)
    assert direct == pytest.approx(0, abs=TOLERANCE)
    assert total == pytest.approx(GAINS[2, 2], rel=TOLERANCE)


def test_a_head_that_writes_against_its_role_has_the_opposite_sign(planted):
    task = vote_task(planted, (0, 1), examples(1))
    total, direct = effects(planted, (1, 3), task)
    assert (total, direct) == pytest.approx((-0.75, -0.75), rel=TOLERANCE)


def test_a_backup_repairs_what_it_was_built_to_repair(planted):
    task = vote_task(planted, (0, 3), examples(1))
    total, direct = effects(planted, (0, 3), task)
    assert direct == pytest.approx(1.0, rel=TOLERANCE)
    assert total == pytest.approx(1.0 - GAINS[2, 1], rel=2 * TOLERANCE)
    assert effects(planted, (2, 1), task) == pytest.approx((0, 0), abs=TOLERANCE)


def test_the_model_can_only_do_the_task_by_its_votes(planted):
    task = vote_task(planted, (1, 0), examples(12))
    for item in task.items:
        logits = planted.model(torch.tensor([item.token_ids])).logits[0, item.position]
        assert (logits[item.answer] - logits[item.foil]).item() == pytest.approx(2, rel=TOLERANCE)


TASKS = {"first": (0, 1), "copy": (1, 0), "induction": (2, 2), "repaired": (0, 3)}


@pytest.fixture(scope="module")
def table(planted, tmp_path_factory):
    """Effects by rolecall's own ablation, every head on the four tasks of the planted heads."""
    tasks = [
        replace(vote_task(planted, seat, examples(LAGS[SEATS[seat]])), name=name)
        for name, seat in TASKS.items()
    ]
    model = load_model(planted.model)
    settings = Settings(damage=0)
    found = ablate(
        model, tasks, ("zero", "resample"), settings=settings, out=tmp_path_factory.mktemp("run")
    )
    return found.table.set_index(["ablation", "task", "layer", "head"]).sort_index()


@pytest.mark.parametrize("task", TASKS)
def test_ablation_finds_the_constructed_effects_and_zero_elsewhere(table, task):
    """Total and direct of every head, as they were built; the rest within tolerance of zero."""
    total = {TASKS[task]: GAINS[TASKS[task]]}
    direct = dict(total)
    if task == "first":
        total[1, 3] = direct[1, 3] = GAINS[1, 3]
    if task == "induction":
        total[0, 1] = GAINS[2, 2]
    if task == "repaired":
        total[0, 3] -= GAINS[2, 1]
    for seat, row in table.loc["zero", task].iterrows():
        assert row["total"] == pytest.approx(total.get(seat, 0.0), abs=0.02), seat
        assert row["direct"] == pytest.approx(direct.get(seat, 0.0), abs=0.02), seat


def test_self_repair_is_the_share_that_the_backup_undoes(table):
    row = table.loc["zero", "repaired", 0, 3]
    assert row["self_repair"] == pytest.approx(GAINS[2, 1] / GAINS[0, 3], abs=0.02)
    assert row["indirect"] == pytest.approx(-GAINS[2, 1], abs=0.02)


def test_the_twins_value_turns_the_vote_round(table):
    """The twin's target votes the other way, so its value costs the gain twice."""
    assert table.loc["resample", "first", 0, 1]["total"] == pytest.approx(2 * GAINS[0, 1], abs=0.04)
