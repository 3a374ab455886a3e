"""Task items in batches of one length, and where their logits are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from rolecall.analyses.models import Model
from rolecall.probes.base import Item, Task


@dataclass(frozen=True)
class Reads:
    """The places at which a batch's logits are read, item after item.

    Attributes:
        row: Which sequence of the batch.
        pos: Which position of it.
        answer: The token that should come.
        foil: The one that should not; None for a loss.
        n_items: Sequences in the batch.
    """

    row: Int[Tensor, " read"]
    pos: Int[Tensor, " read"]
    answer: Int[Tensor, " read"]
    foil: Int[Tensor, " read"] | None
    n_items: int

    def per_item(self, values: Tensor) -> Tensor:
        """Means over each item's reads: [... read] → [... batch]."""
        total = values.new_zeros((*values.shape[:-1], self.n_items))
        count = values.new_zeros(self.n_items)
        total.index_add_(-1, self.row, values)
        return total / count.index_add_(0, self.row, torch.ones_like(values[0]))


@dataclass(frozen=True)
class Batch:
    """Items of one length.

    Attributes:
        token_ids: What the model reads.
        twin_ids: The items' twins, or None where not every item has one.
        items: Their numbers in the task.
        reads: Where their logits are read.
    """

    token_ids: Int[Tensor, "batch pos"]
    twin_ids: Int[Tensor, "batch pos"] | None
    items: tuple[int, ...]
    reads: Reads


def require_items(task: Task, model: Model) -> None:
    """Nothing, if the model can run every item of the task.

    Raises:
        ValueError: There is no item, or one has ids, positions or a twin that cannot be.
    """
    if not task.items:
        why = "; ".join(f"{n} × {reason}" for reason, n in sorted(task.dropped.items()))
        raise ValueError(f"task {task.name!r} has no items" + (f" (dropped: {why})" if why else ""))
    if not task.name or "/" in task.name or "\\" in task.name:
        raise ValueError(f"task {task.name!r}: files are named after it, so it holds no slash")
    if task.metric not in ("logit_difference", "loss"):
        raise ValueError(
            f"task {task.name!r}: metric is logit_difference or loss, not {task.metric!r}"
        )
    for number, item in enumerate(task.items):
        wrong = _fault(item, task.metric, model)
        if wrong:
            raise ValueError(f"task {task.name!r}, item {number}: {wrong}")


def _fault(item: Item, metric: str, model: Model) -> str | None:
    length = len(item.token_ids)
    ids = [*item.token_ids, *(item.twin_token_ids or ())]
    if not 0 < length <= model.n_ctx:
        return f"length {length} does not fit the model's context of {model.n_ctx}"
    if item.twin_token_ids is not None and len(item.twin_token_ids) != length:
        return f"the twin has {len(item.twin_token_ids)} tokens, the prompt {length}"
    if metric == "logit_difference":
        if item.position is None or item.answer is None or item.foil is None:
            return "a logit difference needs position, answer and foil"
        ids += [item.answer, item.foil]
        places, first = (item.position,), 0
    else:
        if not item.positions:
            return "a loss needs positions"
        places, first = item.positions, int(model.causal)
    if not first <= min(places) <= max(places) < length:
        return f"positions run from {first} to {length - 1}, not {min(places)} to {max(places)}"
    if not 0 <= min(ids) <= max(ids) < model.d_vocab:
        return f"token ids run from 0 to {model.d_vocab - 1}, not {min(ids)} to {max(ids)}"
    return None


def batches(
    task: Task, model: Model, *, tokens: int, chosen: Sequence[int] | None = None
) -> Iterator[Batch]:
    """Items (or those with the numbers `chosen`) by length, about `tokens` tokens to a batch.

    In an encoder the places that are read hold the mask token.
    """
    numbers = range(len(task.items)) if chosen is None else chosen
    order = sorted(numbers, key=lambda i: (len(task.items[i].token_ids), i))
    held: list[int] = []
    for number in order:
        length = len(task.items[number].token_ids)
        other = held and len(task.items[held[0]].token_ids) != length
        if held and (other or (len(held) + 1) * length > tokens):
            yield _batch(task, held, model)
            held = []
        held.append(number)
    if held:
        yield _batch(task, held, model)


def _batch(task: Task, numbers: Sequence[int], model: Model) -> Batch:
    items = [task.items[i] for i in numbers]
    reads = _reads(items, task.metric, model)
    ids = torch.tensor([item.token_ids for item in items])
    paired = all(item.twin_token_ids is not None for item in items)
    twins = torch.tensor([item.twin_token_ids for item in items]) if paired else None
    if not model.causal:
        mask = getattr(model.tokenizer, "mask_token_id", None)
        if mask is None:
            raise ValueError(f"{model.name} is an encoder without a mask token; no task can be put")
        rows, places = reads.row.cpu(), reads.pos.cpu()
        ids[rows, places] = mask
        if twins is not None:
            twins[rows, places] = mask
    place = model.device
    return Batch(ids.to(place), None if twins is None else twins.to(place), tuple(numbers), reads)


def _reads(items: Sequence[Item], metric: str, model: Model) -> Reads:
    row: list[int] = []
    pos: list[int] = []
    answer: list[int] = []
    foil: list[int] = []
    # A decoder's logits at a position are about the next token, an encoder's about this one.
    back = int(model.causal)
    for number, item in enumerate(items):
        if metric == "loss":
            row += [number] * len(item.positions)
            pos += [place - back for place in item.positions]
            answer += [item.token_ids[place] for place in item.positions]
        else:
            assert item.position is not None
            assert item.answer is not None
            assert item.foil is not None
            row.append(number)
            pos.append(item.position)
            answer.append(item.answer)
            foil.append(item.foil)

    def tensor(values: list[int]) -> Tensor:
        return torch.tensor(values, device=model.device)

    wrong = tensor(foil) if metric != "loss" else None
    return Reads(tensor(row), tensor(pos), tensor(answer), wrong, len(items))
