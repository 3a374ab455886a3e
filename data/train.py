"""Trains the embedded model: `python -m rolecall.data.train --out DIR`.

A plain loop: AdamW, warm-up, cosine. Each step mixes documents of the grammar with repeated random
tokens. The repeats start as half of a step: the heads that copy need two parts to grow at once,
and with few repeats that takes thousands of steps. Of a repeat only the predictable tokens count.
"""

import argparse
import csv
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rolecall.data import heldout
from rolecall.data.grammar import document
from rolecall.data.lexicon import GROUPS
from rolecall.data.repeats import pools, repeat_tokens
from rolecall.data.tokens import train_tokenizer


UNCOUNTED = -1


@dataclass(frozen=True)
class Plan:
    """Everything that fixes a run; the same plan gives the same weights on the same machine.

    The rates rise over `warmup` steps, stay, and fall to nothing over the last `cooldown` steps.
    A phase is (the step where it ends, the share of repeats, sequences in a batch, their length).
    """

    seed: int = 0
    steps: int = 5000
    warmup: int = 150
    cooldown: int = 1500
    phases: tuple[tuple[int, float, int, int], ...] = (
        (500, 0.5, 40, 64),
        (1000, 0.9, 40, 64),
        (1400, 0.8, 32, 64),
        (100_000, 0.4, 32, 64),
    )
    lr: float = 2e-3
    matrix_lr: float = 2e-2
    decay: float = 0.1
    every: int = 250

    def shape(self, step: int) -> tuple[int, int, int]:
        """Sequences in a batch, repeats among them, and their length."""
        share, batch, length = next(rest for end, *rest in self.phases if step < end)
        return batch, round(share * batch), length

    def scale(self, step: int) -> float:
        """What the learning rates are multiplied by at a step."""
        return min(1, (step + 1) / self.warmup, (self.steps - step) / self.cooldown)


def optimizers(model: LlamaForCausalLM, plan: Plan) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the matrices inside the layers, AdamW for the embedding and the norms."""
    # `full` keeps the rate that `scale` is a share of.
    inner = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    outer = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    return (
        torch.optim.Muon(
            [{"params": inner, "full": plan.matrix_lr}], lr=plan.matrix_lr, weight_decay=plan.decay
        ),
        torch.optim.AdamW(
            [{"params": outer, "full": plan.lr}], lr=plan.lr, betas=(0.9, 0.98), weight_decay=plan.decay
        ),
    )


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
        initializer_range=0.06,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return LlamaForCausalLM(config)


def batches(
    plan: Plan, tokenizer: PreTrainedTokenizerFast, start: int = 0
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yields (ids, targets) step by step; targets are `UNCOUNTED` where nothing can be learnt."""
    pool = [pools(tokenizer, group) for group in range(GROUPS)]
    for step in range(start, plan.steps):
        batch, repeats, length = plan.shape(step)
        ids = torch.full((batch, length), tokenizer.pad_token_id)
        targets = torch.full((batch, length), UNCOUNTED)
        for row in range(repeats):
            rng = Random(f"{plan.seed}:repeat:{step}:{row}")
            every, own = pool[rng.randrange(GROUPS)]
            made = repeat_tokens(own if rng.random() < 0.2 else every, rng, length)
            ids[row] = torch.tensor(made.ids)
            targets[row, list(made.predictable)] = ids[row, list(made.predictable)]
        texts = [document(f"{plan.seed}:{step}:{row}") for row in range(repeats, batch)]
        for row, tokens in enumerate(tokenizer(texts).input_ids, start=repeats):
            tokens = torch.tensor(tokens[:length])
            ids[row, : len(tokens)] = tokens
            targets[row, 1 : len(tokens)] = tokens[1:]
        yield ids, targets


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
    both = optimizers(model, plan)
    rows: list[dict[str, float]] = []
    state = out / "state.pt"
    if state.exists():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, stored in zip(both, saved["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
        rows = saved["rows"]
    start = int(rows[-1]["step"]) if rows else 0
    began = time.monotonic()
    for step, (ids, targets) in enumerate(batches(plan, tokenizer, start), start):
        loss = update(model, both, ids, targets, plan.scale(step))
        done = step + 1
        if checkpoints and done in milestones(plan.steps):
            save(model, tokenizer, checkpoints / f"step{done:05d}")
        if done % plan.every == 0 or done == plan.steps:
            rows.append(measure(model, tokenizer, done, loss, plan.lr * plan.scale(step)))
            write_log(rows, out / "log.csv")
            optimizers_now = [optimizer.state_dict() for optimizer in both]
            torch.save({"model": model.state_dict(), "optimizers": optimizers_now, "rows": rows}, state)
            print(f"{time.monotonic() - began:.0f} s", rows[-1], flush=True)
    save(model, tokenizer, out)
    write_sums(out)
    return model


def update(
    model: LlamaForCausalLM,
    both: tuple[torch.optim.Optimizer, ...],
    ids: torch.Tensor,
    targets: torch.Tensor,
    scale: float,
) -> float:
    """The loss on a batch, after one step of both optimizers at `scale` times their rates."""
    counted = targets[:, 1:] != UNCOUNTED
    hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
    loss = cross_entropy(model.lm_head(hidden[counted]), targets[:, 1:][counted])
    model.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in both:
        for group in optimizer.param_groups:
            group["lr"] = group["full"] * scale
        optimizer.step()
    return loss.item()


def milestones(steps: int) -> tuple[int, ...]:
    """A dozen steps, closer together early, the last one included."""
    return tuple(round(steps * (part / 12) ** 1.5) for part in range(1, 13))


def measure(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    step: int,
    loss: float,
    rate: float,
    each: int = 8,
) -> dict[str, float]:
    """A row of the log: loss, rate, held-out accuracy per task, copying, the clearest heads."""
    model.eval()
    row: dict[str, float] = {"step": step, "loss": loss, "lr": rate}
    for task in heldout.TASKS:
        scores = heldout.item_accuracy(model, tokenizer, heldout.items(task, seed=1, each=each))
        row[task] = sum(scores.values()) / len(scores)
        row[f"{task}_worst"] = min(scores.values())
    made = heldout.copies(len(tokenizer), seed=1, count=3 * each)
    row["repeats"], row["repeat_loss"] = heldout.copy_accuracy(model, made)
    row |= heldout.best_heads(model, made)
    model.train()
    return {name: round(value, 6) for name, value in row.items()}


def write_log(rows: list[dict[str, float]], path: Path) -> None:
    """Writes the rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


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
