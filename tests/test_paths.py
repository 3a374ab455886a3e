"""Path patching: what is built to compose composes, and what is done by hand comes out the same."""

import pytest
import torch

from rolecall.analyses.ablate import ablate
from rolecall.analyses.paths import PathSettings, paths
from tests.plain_ablation import metric, replaced_z
from tests.test_ablate import BARE, choices
from tests.test_direct import (
    GAINS,
    LAGS,
    SEATS,
    Example,
    Link,
    planted,  # noqa: F401  (a fixture)
    vote_task,
)


def induction_task(made, n=8):
    examples = []
    for seed in range(n):
        drawn = torch.randperm(400, generator=torch.Generator().manual_seed(seed))[:12] + 1
        ids = (0, *drawn.tolist(), *drawn.tolist())
        words = tuple((p,) for p in range(1, 25))
        examples.append(Example(ids, f"t{seed}", words, (Link((20,), (20 - LAGS["induction"],)),)))
    return vote_task(made, (2, 2), examples)


def test_the_previous_token_head_feeds_the_induction_heads_keys(planted):  # noqa: F811
    made, model = planted
    assert SEATS[0, 1] == "previous_token"
    rows = paths(model, induction_task(made), "L2H2").set_index(["heads", "entry"])
    assert rows.index[0] == ("L0H1", "k")
    row = rows.loc[("L0H1", "k")]
    assert row["total"] == pytest.approx(GAINS[2, 2], rel=0.02)
    assert row["moved"] > 0.9
    assert row["p_max"] < 0.05
    rest = rows.drop(("L0H1", "k"))
    assert rest["total"].abs().max() < 0.05 * row["total"]


@pytest.mark.parametrize("family", ["llama", "gpt2b", "neox", "qwen3", "gemma2"])
def test_a_path_equals_the_same_done_by_hand(tiny, family):
    """L0H1 to the queries of L1H2, the only path there is: what is read changes by hand too."""
    model, task = tiny(family), choices()
    settings = PathSettings(senders=("L0H1",))
    rows = paths(model, task, "L1H2", settings=settings).set_index("entry")
    assert rows["total"].abs().max() > 0
    assert rows.loc["v", "moved"] == pytest.approx(0, abs=1e-6)
    assert rows.loc["q", "moved"] > 0
    if family != "llama":
        return
    module, drops = model.plain, []
    first, second = module.model.layers
    for item in task.items:
        ids = torch.tensor([item.token_ids])
        kept = {}
        handles = [
            first.self_attn.o_proj.register_forward_pre_hook(
                lambda _m, a, kept=kept: kept.update(z=a[0])
            ),
            second.register_forward_pre_hook(lambda _m, a, kept=kept: kept.update(x=a[0])),
        ]
        clean = metric(module, item)
        for handle in handles:
            handle.remove()
        d = model.d_head
        weight = first.self_attn.o_proj.weight[:, d : 2 * d]
        patched = kept["x"] - kept["z"][..., d : 2 * d] @ weight.T
        queries = second.self_attn.q_proj(second.input_layernorm(patched))
        seen = {}
        hooks = [
            second.self_attn.q_proj.register_forward_hook(lambda *_, q=queries: q),
            second.self_attn.o_proj.register_forward_pre_hook(
                lambda _m, a, seen=seen: seen.update(z=a[0])
            ),
        ]
        with torch.no_grad():
            module(ids)
        for handle in hooks:
            handle.remove()
        with replaced_z(second.self_attn.o_proj, [2], d, seen["z"]):
            drops.append(clean - metric(module, item))
    assert rows.loc["q", "total"] == pytest.approx(sum(drops) / len(drops), abs=1e-4)


def test_a_sender_replaced_by_itself_sends_nothing(tiny):
    from dataclasses import replace

    task = choices()
    items = tuple(replace(item, twin_token_ids=item.token_ids) for item in task.items)
    settings = PathSettings(kind="resample")
    rows = paths(tiny("llama"), replace(task, items=items), "L1H0", settings=settings)
    assert len(rows) == 3 * 4
    assert rows[["total", "moved"]].abs().to_numpy().max() < 1e-4


def test_fused_attention_is_back_afterwards_and_effects_as_before(tiny):
    model, task = tiny("llama"), choices()
    was = model.plain.config._attn_implementation
    before = ablate(model, task, ["zero"], settings=BARE).table
    paths(model, task, "L1H0", settings=PathSettings(kind="mean"))
    assert model.plain.config._attn_implementation == was
    after = ablate(model, task, ["zero"], settings=BARE).table
    assert before.equals(after)


@pytest.mark.parametrize(
    ("family", "to", "settings", "says"),
    [
        ("llama", "L0H0", {}, "first layer"),
        ("llama", "L5H0", {}, "2 layers"),
        ("llama", "L1H0", {"senders": ("L1H3",)}, "L1H3 is not before L1H0"),
        ("llama", "L1H0", {"kind": "noise"}, "not by 'noise'"),
        ("bert", "L1H0", {}, "writes do not add up"),
    ],
)
def test_what_cannot_be_done_is_said(tiny, family, to, settings, says):
    with pytest.raises(ValueError, match=says):
        paths(tiny(family), choices(), to, settings=PathSettings(**settings))
