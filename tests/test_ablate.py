"""Effects: equal to plain transformers, identities that need no golden number, bad input."""

import random
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.effects import beside_damage
from rolecall.analyses.models import load_model
from rolecall.probes.base import Item, Task
from tests import tiny_models
from tests.plain_ablation import PROJECTIONS, metric, replaced_z, z_of

FAMILIES = tuple(PROJECTIONS)
BARE = Settings(damage=0)
# The encoder's mask; ids of items stand above all marks.
MASK, LOWEST = 4, 20


def choices(n=6, length=12, seed=0):
    """Logit-difference items with twins that differ in one token, in three templates."""
    draw = random.Random(seed)
    items = []
    for i in range(n):
        ids = [1, *draw.choices(range(LOWEST, 300), k=length - 1)]
        twin = list(ids)
        twin[length // 2] = draw.randrange(LOWEST, 300)
        answer, foil = draw.sample(range(LOWEST, 300), 2)
        items.append(
            Item(
                tuple(ids),
                f"t{i % 3}",
                position=length - 2,
                answer=answer,
                foil=foil,
                twin_token_ids=tuple(twin),
            )
        )
    return Task("choices", "logit_difference", tuple(items))


def losses(seed=1):
    """Loss items of two lengths, each marked in several places."""
    draw = random.Random(seed)
    items = []
    for length in (9, 14, 9, 14, 14):
        ids = (1, *draw.choices(range(LOWEST, 300), k=length - 1))
        items.append(Item(ids, f"l{length}", positions=(3, 5, length - 2)))
    return Task("losses", "loss", tuple(items))


def totals(found, task, kind):
    """[item, layer, head]."""
    rows = found.items(task, kind).sort_values(["item", "layer", "head"])
    layers, heads = rows["layer"].nunique(), rows["head"].nunique()
    return rows["total"].to_numpy().reshape(-1, layers, heads)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("task", [choices(), losses()], ids=lambda t: t.name)
def test_zero_ablation_equals_one_plain_hooked_forward_per_item_and_head(tiny, family, task):
    model = tiny(family)
    rows = ablate(model, task, ["zero"], settings=BARE).items(task.name, "zero")
    assert len(rows) == len(task.items) * len(model.pattern_layers) * model.n_heads
    module, how = model.plain, {"causal": model.causal, "mask": MASK}
    sign = 1 if task.metric == "logit_difference" else -1
    for row in rows.itertuples():
        item = task.items[row.item]
        clean = metric(module, item, **how)
        with replaced_z(PROJECTIONS[family](module, row.layer), [row.head], model.d_head):
            changed = metric(module, item, **how)
        assert row.clean == pytest.approx(clean, abs=1e-4)
        assert row.total == pytest.approx(sign * (clean - changed), abs=1e-4)


@pytest.mark.parametrize("family", ["gpt2b", "llama", "gemma2", "neox"])
def test_resampling_puts_in_the_twins_value(tiny, family):
    model, task = tiny(family), choices()
    rows = ablate(model, task, ["resample"], settings=BARE).items(task.name, "resample")
    for row in rows.itertuples():
        item, projection = task.items[row.item], PROJECTIONS[family](model.plain, row.layer)
        z = z_of(model.plain, projection, item.twin_token_ids)
        with replaced_z(projection, [row.head], model.d_head, z):
            changed = metric(model.plain, item)
        assert row.total == pytest.approx(metric(model.plain, item) - changed, abs=1e-4)


def test_a_twin_that_is_the_item_itself_changes_nothing(tiny):
    items = tuple(replace(i, twin_token_ids=i.token_ids) for i in choices().items)
    found = ablate(tiny("gpt2b"), replace(choices(), items=items), ["resample"], settings=BARE)
    rows = found.items("choices", "resample")
    assert rows[["total", "direct", "kl"]].abs().to_numpy().max() < 1e-4
    # What is below the resolution of float32 is no effect, however consistent.
    assert (found.table["p_value"] == 1).all()


def test_the_model_gives_the_same_bits_before_and_after(tiny):
    model = tiny("llama")
    ids = torch.tensor([choices().items[0].token_ids])
    modules = (model.plain, model.bridge.original_model)
    before = [module(ids).logits for module in modules]
    ablate(model, [choices(), losses()], settings=BARE)
    after = [module(ids).logits for module in modules]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    for module in model.plain.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert "forward" not in vars(module)


def test_training_mode_is_left_as_it_was():
    module = tiny_models.build("gpt2")
    module.train()
    model = load_model(module, tokenizer=tiny_models.tokenizer_for("gpt2"))
    module.transformer.h[0].attn.eval()
    was = [part.training for part in module.modules()]
    one = ablate(model, choices(), ["zero"], settings=BARE).table
    two = ablate(model, choices(), ["zero"], settings=BARE).table
    assert [part.training for part in module.modules()] == was
    pd.testing.assert_frame_equal(one, two)


def test_permuting_heads_permutes_rows():
    module = tiny_models.build("gpt2b")
    order = [2, 0, 3, 1]
    permuted = tiny_models.build("gpt2b")
    with torch.no_grad():
        for block in permuted.transformer.h:
            attn = block.attn
            qkv = attn.c_attn.weight.view(32, 3, 4, 8)
            attn.c_attn.weight.copy_(qkv[:, :, order].reshape(32, 96))
            attn.c_attn.bias.copy_(attn.c_attn.bias.view(3, 4, 8)[:, order].reshape(96))
            attn.c_proj.weight.copy_(attn.c_proj.weight.view(4, 8, 32)[order].reshape(32, 32))
    tokenizer = tiny_models.tokenizer_for("gpt2b")
    found = [
        ablate(load_model(m, tokenizer=tokenizer), choices(), ["zero", "mean"], settings=BARE)
        for m in (module, permuted)
    ]
    for kind in ("zero", "mean"):
        one, other = (totals(f, "choices", kind) for f in found)
        np.testing.assert_allclose(other, one[:, :, order], atol=1e-4)


def test_rows_do_not_depend_on_which_other_heads_are_asked_for(tiny):
    model, task = tiny("llama"), choices()
    everything = ablate(model, task, ["zero"], settings=BARE).table.set_index("heads")["total"]
    one = ablate(model, task, ["zero"], settings=replace(BARE, heads=("L1H2",))).table
    assert one["total"].item() == pytest.approx(everything["L1H2"], abs=1e-5)


def test_a_kv_group_is_its_query_heads_together_and_named_as_a_group(tiny):
    model, task = tiny("llama"), choices()
    table = ablate(model, task, ["zero"], settings=replace(BARE, group="kv")).table
    assert table["head"].isna().all()
    assert list(table["kv_group"]) == [0, 1, 0, 1]
    row = table[(table["layer"] == 1) & (table["kv_group"] == 1)].iloc[0]
    assert row["heads"] == "L1H2+L1H3"
    drops = []
    for item in task.items:
        with replaced_z(PROJECTIONS["llama"](model.plain, 1), [2, 3], model.d_head):
            drops.append(-metric(model.plain, item))
        drops[-1] += metric(model.plain, item)
    assert row["total"] == pytest.approx(np.mean(drops), abs=1e-4)


@pytest.mark.parametrize("kind", ["zero", "mean", "resample"])
def test_a_set_across_layers_is_removed_at_once(tiny, kind):
    model, task = tiny("gpt2b"), choices()
    settings = replace(BARE, heads=("L0H1+L1H2", "L0H1", "L1H2"))
    found = ablate(model, task, [kind], settings=settings)
    row = cast("Any", found.table.set_index("heads").loc["L0H1+L1H2"])
    assert pd.isna(row["layer"])
    if kind != "zero":
        assert np.isfinite(row["total"])
        return
    projection = PROJECTIONS["gpt2b"]
    drops = []
    for item in task.items:
        with (
            replaced_z(projection(model.plain, 0), [1], model.d_head),
            replaced_z(projection(model.plain, 1), [2], model.d_head),
        ):
            changed = metric(model.plain, item)
        drops.append(metric(model.plain, item) - changed)
    assert row["total"] == pytest.approx(np.mean(drops), abs=1e-4)


def test_a_set_across_layers_in_one_equals_its_only_head_when_the_other_is_itself(tiny):
    task = choices()
    items = tuple(replace(i, twin_token_ids=i.token_ids) for i in task.items)
    settings = replace(BARE, heads=("L0H1+L1H2",))
    found = ablate(tiny("gpt2b"), replace(task, items=items), ["resample"], settings=settings)
    assert found.items("choices", "resample")["total"].abs().max() < 1e-4


def test_a_second_run_does_nothing_again_and_a_cut_one_goes_on(tiny, tmp_path, monkeypatch):
    model, task = tiny("gpt2"), choices()
    whole = ablate(model, task, settings=BARE, out=tmp_path / "whole")
    from rolecall.analyses import sweep as module

    block, done = module.Sweep._block, []

    def cut(self, layer, kind, means):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append((layer, kind))
        return block(self, layer, kind, means)

    monkeypatch.setattr(module.Sweep, "_block", cut)
    with pytest.raises(KeyboardInterrupt):
        ablate(model, task, settings=BARE, out=tmp_path / "cut")
    assert not (tmp_path / "cut" / "effects.parquet").exists()
    assert not (tmp_path / "cut" / "effects" / "items").exists()
    again = []
    monkeypatch.setattr(
        module.Sweep, "_block", lambda s, lay, k, m: again.append((lay, k)) or block(s, lay, k, m)
    )
    ablate(model, task, settings=BARE, out=tmp_path / "cut")
    assert len(again) == 2
    assert not set(again) & set(done)
    one, other = ((tmp_path / f / "effects.parquet").read_bytes() for f in ("whole", "cut"))
    assert one == other
    again.clear()
    ablate(model, task, settings=BARE, out=tmp_path / "cut")
    assert not again
    assert whole.table["total"].notna().all()


def test_the_same_seed_gives_the_same_bytes_and_damage_stands_beside(tiny, tmp_path):
    model = tiny("llama")
    settings = Settings(damage=3)
    for name in ("one", "two"):
        ablate(model, choices(), settings=settings, out=tmp_path / name)
    one, two = ((tmp_path / name / "effects.parquet").read_bytes() for name in ("one", "two"))
    assert one == two
    table = pd.read_parquet(tmp_path / "one" / "effects.parquet")
    damage = table[table["task"] == "natural_text"].set_index(["ablation", "heads"])["total"]
    rows = table[table["task"] == "choices"].set_index(["ablation", "heads"])
    assert set(rows.index.get_level_values(0)) == {"zero", "mean", "resample"}
    for name, row in rows.iterrows():
        assert row["generic_damage"] == pytest.approx(damage[name])


def test_an_effect_is_relative_to_the_size_of_what_the_head_does_to_unrelated_text():
    # A head whose absence makes unrelated text easier by a lot is as generic as one that harms it.
    damage = {"L0H0": 0.5, "L0H1": -0.5, "L0H2": 0.001}
    rows = pd.DataFrame({"task": ["choices"] * 3 + ["natural_text"] * 3, "heads": [*damage] * 2})
    rows["total"] = [5.0, 5.0, 5.0, *damage.values()]
    rows["total_low"] = rows["total_high"] = rows["total"]
    found = beside_damage(rows)
    assert list(found["per_damage"][:3]) == [10.0, 10.0, 500.0]
    assert list(found["generic_damage"][:3]) == list(damage.values())


@pytest.mark.parametrize(
    ("heads", "says"),
    [
        ("L9H0", "2 layers"),
        ("L0H7", "4 query heads"),
        ("5.1", "named like L5H1"),
        ("L0H1+L0H9", "4 query heads"),
        (" , ", "no head is named"),
    ],
)
def test_a_head_that_is_not_there_is_named(tiny, heads, says):
    with pytest.raises(ValueError, match=says):
        ablate(tiny("gpt2"), choices(), settings=replace(BARE, heads=(heads,)))


def test_a_layer_without_attention_has_no_heads(tiny):
    with pytest.raises(ValueError, match=r"layer 0 of .* has no attention"):
        ablate(tiny("lfm2"), choices(), settings=replace(BARE, heads=("L0H1",)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"twin_token_ids": (1, 2)}, "twin has 2 tokens, the prompt 12"),
        ({"position": 40}, "positions run from 0 to 11, not 40"),
        ({"answer": 5000}, "token ids run from 0 to 511, not"),
        ({"foil": None}, "needs position, answer and foil"),
        ({"token_ids": tuple(range(20, 90))}, "length 70 does not fit the model's context of 64"),
    ],
)
def test_an_item_that_cannot_be_run_is_named_with_its_number(tiny, change, says):
    items = list(choices().items)
    items[3] = replace(items[3], **change)
    with pytest.raises(ValueError, match=f"task 'choices', item 3: .*{says}"):
        ablate(tiny("gpt2"), replace(choices(), items=tuple(items)), settings=BARE)


@pytest.mark.parametrize(
    ("tasks", "kinds", "says"),
    [
        ([], ["zero"], "no task"),
        ([choices()], [], "no kind"),
        ([choices()], ["median"], "zero, zero_folded, mean, resample; not by 'median'"),
        ([choices(), choices()], ["zero"], "two tasks are named 'choices'"),
        ([Task("none", "loss", (), {"too long": 3})], ["zero"], "no items .*3 × too long"),
        ([replace(choices(), name="natural_text")], ["zero"], "gives the generic damage"),
    ],
)
def test_nothing_to_do_is_said(tiny, tasks, kinds, says):
    with pytest.raises(ValueError, match=says):
        ablate(tiny("gpt2"), tasks, kinds, settings=BARE)


def test_an_encoder_without_a_head_is_told_so(tiny):
    with pytest.raises(ValueError, match="no language-model head"):
        ablate(tiny("bert_body"), choices(), settings=BARE)


def test_items_without_twins_are_not_resampled_and_it_is_said(tiny):
    items = tuple(replace(i, twin_token_ids=None) for i in choices().items)
    found = ablate(tiny("gpt2"), replace(choices(), items=items), settings=BARE)
    assert set(found.table["ablation"]) == {"zero", "mean"}
    assert any("no twins" in note for note in found.notes)


def test_what_a_random_model_cannot_do_is_marked(tiny):
    found = ablate(tiny("gpt2"), choices(n=12), ["zero"], settings=BARE)
    assert not found.table["interpretable"].any()
    assert any("not shown to do it" in note for note in found.notes)


def test_numbers_do_not_depend_on_how_items_come_in_batches(tiny):
    model, task = tiny("gpt2b"), choices(n=9)
    one, other = (
        totals(ablate(model, task, ["mean"], settings=replace(BARE, rows=rows)), "choices", "mean")
        for rows in (512, 24)
    )
    np.testing.assert_allclose(other, one, atol=1e-4)
