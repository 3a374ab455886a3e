"""Trains the embedded model: `python -m rolecall.data.train --out DIR`.

A plain loop: Muon (Jordan 2024) for the matrices of the layers, AdamW for the rest; warm-up, a
constant rate, a linear fall; a running mean of the weights is what is saved. What it reads is in
`rolecall.data.batches`, and why heads pay for what they write in `rolecall.data.thrift`.
"""

import argparse
import csv
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rolecall.data import heldout
from rolecall.data.batches import Plan, batches, content_tokens, weights
from rolecall.data.thrift import writes
from rolecall.data.tokens import train_tokenizer


def new_model(vocab: int, seed: int) -> LlamaForCausalLM:
    """A fresh model: 4 layers of 8 query heads over 4 key-value heads."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.04,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return LlamaForCausalLM(config)


def train(plan: Plan, out: Path, checkpoints: Path | None = None) -> LlamaForCausalLM:
    """The trained model, saved in `out` with its tokenizer, log and checksums.

    A run that was cut off goes on from `out/state.pt` and ends the same.

    Args:
        plan: the run.
        out: folder to write.
        checkpoints: if given, a folder for the model at each step of `milestones`.
    """
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(plan.seed)
    model = new_model(len(tokenizer), plan.seed)
    mean = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(plan.average))
    averaged = cast("LlamaForCausalLM", mean.module)
    optimizers = new_optimizers(model, plan)
    parts = {"model": model, "mean": mean, "muon": optimizers[0], "adamw": optimizers[1]}
    content = content_tokens(tokenizer)
    rows: list[dict[str, float]] = []
    state = out / "state.pt"
    if state.exists():
        saved = torch.load(state, weights_only=True)
        rows = saved["rows"]
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    start = int(rows[-1]["step"]) if rows else 0
    began = time.monotonic()
    for step, (ids, targets) in enumerate(batches(plan, tokenizer, start), start):
        counted = weights(ids, targets, content, plan.fresh)
        loss = update(model, optimizers, ids, counted, Rates.at(plan, step))
        mean.update_parameters(model)
        done = step + 1
        if checkpoints and done in milestones(plan.steps):
            save(averaged, tokenizer, checkpoints / f"step{done:05d}")
        if done % plan.every == 0 or done == plan.steps:
            rows.append({"step": done, **loss, "rate": plan.scale(step)})
            rows[-1] |= measure(averaged, tokenizer)
            write_log(rows, out / "log.csv")
            torch.save({"rows": rows} | {n: part.state_dict() for n, part in parts.items()}, state)
            print(f"{time.monotonic() - began:.0f} s", rows[-1], flush=True)  # noqa: T201
    save(averaged, tokenizer, out)
    write_sums(out)
    state.unlink(missing_ok=True)
    return averaged


def new_optimizers(model: LlamaForCausalLM, plan: Plan) -> tuple[torch.optim.Optimizer, ...]:
    """Muon over the matrices of the layers, and AdamW over the embedding and the norms."""
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    held = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in held]
    return (
        torch.optim.Muon(matrices, lr=plan.muon, momentum=0.95, weight_decay=plan.decay),
        torch.optim.AdamW(rest, lr=plan.lr, betas=(0.9, 0.95), weight_decay=plan.decay),
    )


@dataclass(frozen=True)
class Rates:
    """What holds at one step: the rate of each optimizer, and the tax on what heads write."""

    rates: tuple[float, float]
    tax: float

    @classmethod
    def at(cls, plan: Plan, step: int) -> "Rates":
        """The rates of a step of the plan."""
        scale = plan.scale(step)
        return cls((plan.muon * scale, plan.lr * scale), plan.taxed(step))


def update(
    model: LlamaForCausalLM,
    optimizers: tuple[torch.optim.Optimizer, ...],
    ids: torch.Tensor,
    counted: torch.Tensor,
    now: Rates,
) -> dict[str, float]:
    """The loss on a batch and the sum of the norms of what heads write, after one step."""
    some = counted[:, 1:] > 0
    with writes(model) as norms:
        hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
    losses = cross_entropy(model.lm_head(hidden[some]), ids[:, 1:][some], reduction="none")
    loss = (losses * counted[:, 1:][some]).sum() / counted.sum()
    written = torch.cat(norms).sum()
    model.zero_grad()
    (loss + now.tax * written).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer, rate in zip(optimizers, now.rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return {"loss": loss.item(), "written": written.item()}


def milestones(steps: int) -> tuple[int, ...]:
    """A dozen steps, closer together early, the last one included."""
    return tuple(round(steps * (part / 12) ** 1.5) for part in range(1, 13))


def measure(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, each: int = 8
) -> dict[str, float]:
    """What a row of the log says: held-out accuracy per task, copying, the clearest heads."""
    model.eval()
    row: dict[str, float] = {}
    for task in heldout.TASKS:
        scores = heldout.item_accuracy(model, tokenizer, heldout.items(task, seed=1, each=each))
        row[task] = sum(scores.values()) / len(scores)
        row[f"{task}_worst"] = min(scores.values())
    made = heldout.copies(len(tokenizer), seed=1, count=3 * each)
    row["repeats"], row["repeat_loss"] = heldout.copy_accuracy(model, made)
    row |= heldout.best_heads(model, made)
    model.train()
    return row


def write_log(rows: list[dict[str, float]], path: Path) -> None:
    """Writes the rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: round(x, 6) for name, x in row.items()} for row in rows)


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Writes an ordinary Hugging Face folder."""
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def write_sums(out: Path) -> None:
    """Writes the checksums that `rolecall.data.embedded` compares."""
    named = sorted(p for p in out.iterdir() if p.suffix in (".json", ".safetensors"))
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in named]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(prog="python -m rolecall.data.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--checkpoints", type=Path, help="folder for a dozen models on the way")
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--steps", type=int, default=Plan.steps)
    parsed = parser.parse_args()
    train(Plan(seed=parsed.seed, steps=parsed.steps), parsed.out, parsed.checkpoints)


if __name__ == "__main__":
    main()
