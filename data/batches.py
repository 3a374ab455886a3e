"""What the embedded model is trained on, step by step.

Each step mixes documents of the grammar with repeated random tokens. Loss is spent where something
can be learnt: of a repeat only the later copies count, and in text a content word that was not said
before counts a tenth of another token. Without that, words that nobody could guess drown the few
tokens that show agreement or gender.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import cast

import torch
from transformers import PreTrainedTokenizerFast

from rolecall.data.grammar import document
from rolecall.data.lexicon import GROUPS, group_of
from rolecall.data.repeats import pools, repeat_tokens

UNCOUNTED = -1


@dataclass(frozen=True)
class Plan:
    """Everything that fixes a run; the same plan gives the same weights on the same machine.

    The rate rises over `warmup` steps, stays, and falls to nothing over the last `cooldown` steps.
    `repeats` is the share of repeated sequences, `later` that share from step `settled` on, when
    copying is learnt. From there on the text has a word of no list in the share `strange` of the
    slots that can (`rolecall.data.coined`), and what heads write is taxed (`rolecall.data.thrift`),
    rising over `ramp` steps towards `tax`; from step `lifted` on it is `kept`. `emphatic` is the
    share of slots with an emphasis of those that can have one (`rolecall.data.emphasis`), `length`
    the tokens in each sequence, `average` the share of the running mean of the weights that a step
    keeps.
    """

    seed: int = 0
    steps: int = 4800
    warmup: int = 150
    cooldown: int = 300
    settled: int = 1800
    ramp: int = 1500
    repeats: float = 0.4
    later: float = 0.2
    tax: float = 0.006
    lifted: int = 3500
    kept: float = 0.003
    emphatic: float = 0.4
    strange: float = 0.1
    length: int = 64
    batch: int = 48
    lr: float = 1.5e-3
    muon: float = 0.02
    fresh: float = 0.1
    decay: float = 0.1
    average: float = 0.995
    every: int = 250

    def scale(self, step: int) -> float:
        """What the learning rate is multiplied by at a step."""
        return min(1, (step + 1) / self.warmup, (self.steps - step) / self.cooldown)

    def repeated(self, step: int) -> int:
        """How many sequences of a step are repeats."""
        return round((self.repeats if step < self.settled else self.later) * self.batch)

    def taxed(self, step: int) -> float:
        """The tax on what heads write at a step, in nats per unit of norm."""
        if step >= self.lifted:
            return self.kept
        return self.tax * min(1.0, max(0.0, (step - self.settled) / self.ramp))


def batches(
    plan: Plan, tokenizer: PreTrainedTokenizerFast, start: int = 0
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yields (ids, targets) step by step; targets are `UNCOUNTED` where nothing can be learnt."""
    length = plan.length
    pool = [pools(tokenizer, group) for group in range(GROUPS)]
    for step in range(start, plan.steps):
        repeats = plan.repeated(step)
        ids = torch.full((plan.batch, length), cast("int", tokenizer.pad_token_id))
        targets = torch.full((plan.batch, length), UNCOUNTED)
        for row in range(repeats):
            rng = Random(f"{plan.seed}:repeat:{step}:{row}")
            every, own = pool[rng.randrange(GROUPS)]
            made = repeat_tokens(own if rng.random() < 0.2 else every, rng, length)
            ids[row] = torch.tensor(made.ids)
            targets[row, list(made.predictable)] = ids[row, list(made.predictable)]
        strange = plan.strange if step >= plan.settled else 0
        texts = [
            document(f"{plan.seed}:{step}:{row}", emphatic=plan.emphatic, strange=strange)
            for row in range(repeats, plan.batch)
        ]
        for row, tokens in enumerate(tokenizer(texts).input_ids, start=repeats):
            tokens = torch.tensor(tokens[:length])
            ids[row, : len(tokens)] = tokens
            targets[row, 1 : len(tokens)] = tokens[1:]
        yield ids, targets


def weights(
    ids: torch.Tensor, targets: torch.Tensor, content: torch.Tensor, fresh: float
) -> torch.Tensor:
    """How much each target counts: 0, `fresh` for a content word not said before, else 1.

    Args:
        ids: token ids, `[batch, pos]`.
        targets: the same, `UNCOUNTED` where nothing can be learnt.
        content: whether a token is a content word, `[d_vocab]`.
        fresh: the weight of a content word that stands for the first time.
    """
    before = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril(-1)
    said = ((ids[:, :, None] == ids[:, None, :]) & before).any(-1)
    guess = content[ids] & ~said
    return torch.where(targets == UNCOUNTED, 0.0, torch.where(guess, fresh, 1.0))


def content_tokens(tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Whether each token is a content word, `[d_vocab]`."""
    shown = [cast("str", tokenizer.decode([token])).strip() for token in range(len(tokenizer))]
    return torch.tensor([group_of(text) is not None for text in shown])
