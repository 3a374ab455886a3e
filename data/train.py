"""Trains the embedded model: `python -m rolecall.data.train --out DIR`.

A plain loop: AdamW, warm-up, cosine. Each step mixes documents of the grammar with repeated random
tokens. The repeats start as half of a step: the heads that copy need two parts to grow at once,
and with few repeats that takes thousands of steps. Of a repeat only the predictable tokens count.
"""

import argparse
import csv
import hashlib
import math
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
    """Everything that fixes a run; the same plan gives the same weights on the same machine."""

    seed: int = 0
    steps: int = 5000
    tokens: int = 3072
    short: int = 64
    long: int = 96
    lr: float = 2e-3
    warmup: int = 150
    decay: float = 0.1
    many_repeats: float = 0.5
    few_repeats: float = 0.3
    every: int = 200

    def shape(self, step: int) -> tuple[int, int, int]:
        """Sequences, repeats among them, and length: many short ones first, then fewer long."""
        early = step < self.steps // 2
        length = self.short if early else self.long
        batch = self.tokens // length
        share = self.many_repeats if early else self.few_repeats
        return batch, round(share * batch), length

    def rate(self, step: int) -> float:
        """The learning rate: linear warm-up, then a cosine to a fiftieth."""
        done = max(0.0, (step - self.warmup) / (self.steps - self.warmup))
        return self.lr * min(1, (step + 1) / self.warmup) * (0.51 + 0.49 * math.cos(math.pi * done))


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


def batches(plan: Plan, tokenizer: PreTrainedTokenizerFast) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yields (ids, targets) step by step; targets are `UNCOUNTED` where nothing can be learnt."""
    pool = [pools(tokenizer, group) for group in range(GROUPS)]
    for step in range(plan.steps):
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

    Args:
        plan: the run.
        out: folder to write.
        checkpoints: if given, a folder for the model at each step of `milestones`.
    """
    torch.set_num_threads(2)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(plan.seed)
    model = new_model(len(tokenizer), plan.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=plan.lr, betas=(0.9, 0.98), weight_decay=plan.decay
    )
    rows = []
    started = time.monotonic()
    for step, (ids, targets) in enumerate(batches(plan, tokenizer)):
        for group in optimizer.param_groups:
            group["lr"] = plan.rate(step)
        counted = targets[:, 1:] != UNCOUNTED
        hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
        loss = cross_entropy(model.lm_head(hidden[counted]), targets[:, 1:][counted])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if checkpoints and step + 1 in milestones(plan.steps):
            save(model, tokenizer, checkpoints / f"step{step + 1:05d}")
        if (step + 1) % plan.every == 0 or step + 1 == plan.steps:
            rows.append(measure(model, tokenizer, step + 1, loss.item(), plan.rate(step)))
            write_log(rows, out / "log.csv")
            print(f"{time.monotonic() - started:.0f} s", rows[-1], flush=True)
    save(model, tokenizer, out)
    write_sums(out)
    return model


def milestones(steps: int) -> tuple[int, ...]:
    """A dozen steps, closer together early, the last one included."""
    return tuple(round(steps * (part / 12) ** 1.5) for part in range(1, 13))


def measure(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    step: int,
    loss: float,
    rate: float,
    each: int = 25,
) -> dict[str, float]:
    """A row of the log: loss, rate, held-out accuracy per task, copying, the clearest heads."""
    model.eval()
    row: dict[str, float] = {"step": step, "loss": loss, "lr": rate}
    for task in heldout.TASKS:
        scores = heldout.item_accuracy(model, tokenizer, heldout.items(task, seed=1, each=each))
        row[task] = sum(scores.values()) / len(scores)
        row[f"{task}_worst"] = min(scores.values())
    made = heldout.copies(len(tokenizer), seed=1, count=2 * each)
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
