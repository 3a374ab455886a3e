"""Trains the embedded model: `python -m rolecall.data.train --out DIR`.

A plain loop: AdamW, warm-up, a constant rate, a linear fall. What it reads is in
`rolecall.data.batches`.
"""

import argparse
import csv
import hashlib
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rolecall.data import heldout
from rolecall.data.batches import Plan, batches, content_tokens, weights
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
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=plan.lr, betas=(0.9, 0.95), weight_decay=plan.decay
    )
    content = content_tokens(tokenizer)
    rows: list[dict[str, float]] = []
    state = out / "state.pt"
    if state.exists():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        rows = saved["rows"]
    start = int(rows[-1]["step"]) if rows else 0
    began = time.monotonic()
    for step, (ids, targets) in enumerate(batches(plan, tokenizer, start), start):
        loss = update(
            model,
            optimizer,
            ids,
            weights(ids, targets, content, plan.fresh),
            plan.lr * plan.scale(step),
        )
        done = step + 1
        if checkpoints and done in milestones(plan.steps):
            save(model, tokenizer, checkpoints / f"step{done:05d}")
        if done % plan.every == 0 or done == plan.steps:
            rows.append(measure(model, tokenizer, done, loss, plan.lr * plan.scale(step)))
            write_log(rows, out / "log.csv")
            now = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rows": rows}
            torch.save(now, state)
            print(f"{time.monotonic() - began:.0f} s", rows[-1], flush=True)  # noqa: T201
    save(model, tokenizer, out)
    write_sums(out)
    state.unlink(missing_ok=True)
    return model


def update(
    model: LlamaForCausalLM,
    optimizer: torch.optim.Optimizer,
    ids: torch.Tensor,
    counted: torch.Tensor,
    rate: float,
) -> float:
    """The loss on a batch, after one step at this rate."""
    some = counted[:, 1:] > 0
    hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
    losses = cross_entropy(model.lm_head(hidden[some]), ids[:, 1:][some], reduction="none")
    loss = (losses * counted[:, 1:][some]).sum() / counted.sum()
    model.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
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
