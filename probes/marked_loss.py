"""Loss items: sentences in which some words are marked as what the model should predict."""

from __future__ import annotations

from collections import Counter
from random import Random

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner, Encoded
from rolecall.probes.base import Item, Task
from rolecall.probes.sentences import Filled, draw, fill
from rolecall.probes.text import NO_TEXT, TOO_LONG, UNKNOWN

ENCODER = "an encoder predicts no next token"
NOTHING = "no marked token"


def marked_loss(aligner: Aligner, name: str, file: str, *, n: int, seed: int) -> Task:
    """A loss task on the marked words of task templates, which are taken in turn.

    Words marked `answer` or `last` count with all their pieces, words marked `word` from the third
    piece on.
    """
    if aligner.tokenizer is None or not aligner.causal:
        return Task(name, "loss", (), {ENCODER if aligner.tokenizer else NO_TEXT: n})
    rng = Random(seed)
    rows = templates(file)
    chosen = [rows[number % len(rows)] for number in range(n)]
    filled = [fill(row.text, draw(row.slots, rng)) for row in chosen]
    encoded = aligner.encode_each([f.text for f in filled])
    dropped: Counter[str] = Counter()
    items = []
    for row, text, one in zip(chosen, filled, encoded, strict=True):
        made = _item(aligner, row.id, text, one)
        if isinstance(made, Item):
            items.append(made)
        else:
            dropped[made] += 1
    return Task(name, "loss", tuple(items), dict(dropped))


def _item(aligner: Aligner, template: str, filled: Filled, encoded: Encoded) -> Item | str:
    if encoded.unknown:
        return UNKNOWN
    if len(encoded.token_ids) > aligner.max_length:
        return TOO_LONG
    positions = set()
    for label, spans in filled.marks.items():
        skipped = 2 if label == "word" else 0
        for span in spans:
            positions.update(aligner.positions(encoded, *span)[skipped:])
    if not positions:
        return NOTHING
    return Item(encoded.token_ids, template, positions=tuple(sorted(positions)))
