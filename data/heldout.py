"""What the embedded model must be able to do, on frames and word pairs it never saw.

Each item of a list (`LISTS`) is a prompt, the right next token and the wrong one. Every content
word comes from another group (see `rolecall.data.lexicon`), and where two referents could agree,
they differ in number or gender, so neither the nearest noun nor the last name answers it.
"""

from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import cast

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from rolecall.data.grammar import fill, frames
from rolecall.data.lexicon import GROUPS
from rolecall.data.repeats import Repeat

TASKS = ("agreement", "coreference", "brackets")
LISTS = ("heldout", "heldout_second", "heldout_third")
"""Files of `words/`: one that was looked at while the training was planned, and two that were
written apart from it and asked once, of the model that came out of it."""


@dataclass(frozen=True)
class Item:
    """A prompt with the right and the wrong continuation."""

    task: str
    template: str
    prompt: str
    answer: str
    foil: str


def items(task: str, seed: int, each: int, file: str = "heldout") -> list[Item]:
    """`each` items of every held-out template of a task.

    Args:
        task: one of `TASKS`.
        seed: fixes the words.
        each: items per template.
        file: one of `LISTS`.
    """
    made = []
    for row in frames(file):
        if row["task"] != task:
            continue
        joined = "\t".join((row["prompt"], row["answer"], row["foil"]))
        for number in range(each):
            rng = Random(f"{seed}:{row['prompt']}:{number}")
            groups = cycle(rng.sample(range(GROUPS), GROUPS))
            prompt, answer, foil = fill(joined, groups, rng, contrast=True).split("\t")
            made.append(Item(task, row["prompt"], prompt, answer, foil))
    return made


@torch.no_grad()
def item_accuracy(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, made: list[Item]
) -> dict[str, float]:
    """Per template, the share of items whose answer has a higher logit than the foil.

    Items whose answer or foil is not one token are left out.
    """
    rows: dict[int, list[tuple[Item, list[int], int, int]]] = {}
    for item in made:
        ids = tokenizer.encode(item.prompt)
        ends = [tokenizer.encode(item.prompt + end)[len(ids) :] for end in (item.answer, item.foil)]
        if any(len(end) != 1 for end in ends):
            continue
        rows.setdefault(len(ids), []).append((item, ids, ends[0][0], ends[1][0]))
    right: dict[str, list[bool]] = {}
    for same in rows.values():  # equal lengths, so there is no padding
        logits = model(torch.tensor([ids for _, ids, _, _ in same]), use_cache=False).logits[:, -1]
        for (item, _, answer, foil), row in zip(same, logits, strict=True):
            right.setdefault(item.template, []).append(bool(row[answer] > row[foil]))
    return {template: sum(hits) / len(hits) for template, hits in right.items()}


def copies(vocab: int, seed: int, count: int, special: int = 2) -> list[Repeat]:
    """`[BOS] r r` and `[BOS] r gap r` with uniformly random tokens, length and gap varied."""
    made = []
    for number in range(count):
        rng = Random(f"{seed}:copies:{number}")
        period, gap = rng.randint(5, 40), rng.choice((0, 0, rng.randint(1, 10)))
        copied = rng.sample(range(special, vocab), period)
        filler = rng.choices(range(special, vocab), k=gap)
        start = 1 + period + gap
        made.append(Repeat((0, *copied, *filler, *copied), tuple(range(start + 1, start + period))))
    return made


@torch.no_grad()
def copy_accuracy(model: LlamaForCausalLM, made: list[Repeat]) -> tuple[float, float]:
    """Top-1 accuracy and mean loss on the second copy, from its second token on."""
    right, losses = [], []
    for item in made:
        ids = torch.tensor([item.ids])
        logits = model(ids, use_cache=False).logits[0].log_softmax(-1)
        at = torch.tensor(item.predictable)
        wanted = ids[0, at]
        right.append(logits[at - 1].argmax(-1).eq(wanted).float())
        losses.append(-logits[at - 1, wanted])
    return torch.cat(right).mean().item(), torch.cat(losses).mean().item()


@torch.no_grad()
def best_heads(model: LlamaForCausalLM, made: list[Repeat]) -> dict[str, float]:
    """The largest mean attention of a head to the previous token, and to what came next before."""
    used = cast("str", model.config._attn_implementation)  # None only before a model is made
    model.set_attn_implementation("eager")
    previous, induction = torch.zeros(()), torch.zeros(())
    for item in made:
        out = model(torch.tensor([item.ids]), use_cache=False, output_attentions=True)
        pattern = torch.stack(out.attentions)[:, 0]
        at = torch.tensor(item.predictable)
        distance = len(item.ids) - item.ids.index(item.ids[-1]) - 1
        previous = previous + pattern[:, :, at, at - 1].mean(-1) / len(made)
        induction = induction + pattern[:, :, at - 1, at - distance].mean(-1) / len(made)
    model.set_attn_implementation(used)
    return {"previous": float(previous.max()), "induction": float(induction.max())}
