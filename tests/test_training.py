"""Training the embedded model: what is taxed, and that a run cut off ends as one that was not."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rolecall.data import train as training
from rolecall.data.batches import Plan
from rolecall.data.thrift import writes
from rolecall.data.train import milestones, new_model, train

PLAN = Plan(steps=4, warmup=2, cooldown=2, settled=1, ramp=2, batch=4, length=24, every=2)


def test_the_tax_is_on_the_norm_of_what_each_head_writes():
    model = new_model(60, seed=3)
    ids = torch.randint(2, 60, (2, 9), generator=torch.Generator().manual_seed(0))
    seen = []
    handles = [
        layer.self_attn.o_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        for layer in model.model.layers
    ]
    with writes(model) as norms, torch.no_grad():
        model(ids)
    for handle in handles:
        handle.remove()
    for layer, (found, z) in enumerate(zip(norms, seen, strict=True)):
        o_proj = model.model.layers[layer].self_attn.o_proj.weight
        for head in range(8):
            own = slice(32 * head, 32 * head + 32)
            written = (z[..., own] @ o_proj[:, own].T).norm(dim=-1).square() + 1e-4
            assert found[head].item() == pytest.approx(written.sqrt().mean().item(), rel=1e-4)


def test_nothing_is_left_in_the_model_when_the_norms_are_read():
    model = new_model(60, seed=3)
    with writes(model):
        pass
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_the_tax_rises_and_is_lifted_and_repeats_get_fewer():
    plan = Plan()
    assert plan.taxed(0) == plan.taxed(plan.settled) == 0
    assert plan.taxed(plan.settled + plan.ramp) == plan.taxed(plan.lifted - 1) == plan.tax
    assert plan.taxed(plan.lifted) == plan.taxed(plan.steps) == plan.kept < plan.tax
    assert plan.repeated(plan.settled - 1) > plan.repeated(plan.settled) > 0


def test_a_run_that_was_cut_off_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    train(PLAN, tmp_path / "whole", checkpoints=tmp_path / "steps")
    measure = training.measure
    calls = []

    def cut(*args):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measure(*args)

    monkeypatch.setattr(training, "measure", cut)
    with pytest.raises(KeyboardInterrupt):
        train(PLAN, tmp_path / "parts")
    assert (tmp_path / "parts" / "state.pt").exists()
    monkeypatch.undo()
    train(PLAN, tmp_path / "parts")
    whole, parts = (load_file(tmp_path / k / "model.safetensors") for k in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert (tmp_path / "whole" / "log.csv").read_text() == (
        tmp_path / "parts" / "log.csv"
    ).read_text()
    assert not (tmp_path / "parts" / "state.pt").exists()
    last = load_file(tmp_path / "steps" / "step00004" / "model.safetensors")
    assert all(torch.equal(whole[name], last[name]) for name in whole)


def test_another_seed_gives_other_weights():
    one, two = (new_model(60, seed=seed).state_dict() for seed in (0, 1))
    assert not torch.equal(one["lm_head.weight"], two["lm_head.weight"])


def test_a_dozen_checkpoints_closer_together_early():
    steps = milestones(7000)
    assert len(steps) == 12
    assert steps[-1] == 7000
    gaps = [b - a for a, b in zip((0, *steps), steps, strict=False)]
    assert gaps == sorted(gaps)
