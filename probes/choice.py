"""Choice items: a prompt, the right next token and the wrong one, from a pair of sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from rolecall.data.templates import templates
from rolecall.probes.aligner import Aligner, Encoded
from rolecall.probes.base import Item, Task
from rolecall.probes.sentences import draw, fill
from rolecall.probes.text import NO_TEXT, TOO_LONG, UNKNOWN

MANY_TOKENS = "answer or foil is not one token"
SAME_TOKEN = "answer and foil are the same token"
NO_MASK = "the encoder has no mask token"
NO_TWIN = "twin of another length: item kept without it"


@dataclass(frozen=True)
class Choice:
    """A prompt in text, with what should follow and what should not.

    Attributes:
        prompt: Ends where the answer begins; the answer brings its own blank.
        answer: The right continuation.
        foil: The wrong one.
        twin: A prompt after which the foil is right; empty if there is none.
        template: What it was made from.
    """

    prompt: str
    answer: str
    foil: str
    twin: str
    template: str


def crafted(role: str, *, n: int, seed: int) -> tuple[Choice, ...]:
    """About n choices from a role's task templates, each template in turn, in both orders.

    >>> crafted("determiner_task", n=1, seed=0)[0].answer[0]
    ' '
    """
    rng = Random(seed)
    rows = templates(role)
    found = []
    for number in range(n):
        row = rows[number % len(rows)]
        drawn = draw(row.slots, rng)
        text, twin, answer, foil = (
            fill(s, drawn).text for s in (row.text, row.twin, row.answer, row.foil)
        )
        if number // len(rows) % 2:
            text, twin, answer, foil = twin, text, foil, answer
        found.append(Choice(text, answer, foil, twin, row.id))
    return tuple(found)


def task(aligner: Aligner, name: str, choices: Sequence[Choice]) -> Task:
    """The choices as a task, with a count of those that could not be used.

    An answer must be exactly one token behind the prompt's own tokens. Encoders read the answer at
    their mask token.
    """
    if aligner.tokenizer is None:
        return Task(name, "logit_difference", (), {NO_TEXT: len(choices)})
    texts = [
        text for c in choices for text in (c.prompt, c.prompt + c.answer, c.prompt + c.foil, c.twin)
    ]
    encoded = aligner.encode_each(texts)
    dropped: Counter[str] = Counter()
    items = []
    for choice in choices:
        made = _item(aligner, choice.template, tuple(islice(encoded, 4)), dropped)
        if isinstance(made, Item):
            items.append(made)
        else:
            dropped[made] += 1
    return Task(name, "logit_difference", tuple(items), dict(dropped))


def _item(
    aligner: Aligner, template: str, encoded: Sequence[Encoded], dropped: Counter[str]
) -> Item | str:
    """The item, or the reason why there is none."""
    if any(one.unknown for one in encoded):
        return UNKNOWN
    prompt, with_answer, with_foil, twin = (inner(aligner, one) for one in encoded)
    answer, foil = next_id(prompt, with_answer), next_id(prompt, with_foil)
    if answer is None or foil is None:
        return MANY_TOKENS
    if answer == foil:
        return SAME_TOKEN
    token_ids = asked(aligner, prompt)
    if token_ids is None:
        return NO_MASK
    if len(token_ids) > aligner.max_length:
        return TOO_LONG
    same = len(twin) == len(prompt)
    if twin and not same:
        dropped[NO_TWIN] += 1
    return Item(
        token_ids=token_ids,
        template=template,
        position=len(token_ids) - 1 - (aligner.eos is not None),
        answer=answer,
        foil=foil,
        twin_token_ids=asked(aligner, twin) if same else None,
    )


def inner(aligner: Aligner, encoded: Encoded) -> tuple[int, ...]:
    """The text's own ids, without the special tokens that the aligner added."""
    end = len(encoded.token_ids) - (aligner.eos is not None)
    return encoded.token_ids[aligner.start : end]


def next_id(prompt: tuple[int, ...], longer: tuple[int, ...]) -> int | None:
    """The one id that the longer text has behind the prompt's; None if it is not exactly one.

    >>> next_id((4, 5), (4, 5, 6)), next_id((4, 5), (4, 7)), next_id((4, 5), (4, 5, 6, 7))
    (6, None, None)
    """
    return longer[-1] if len(longer) == len(prompt) + 1 and longer[:-1] == prompt else None


def asked(aligner: Aligner, prompt: tuple[int, ...]) -> tuple[int, ...] | None:
    """The prompt as the model gets it, in an encoder with a mask behind; None without a mask."""
    if aligner.causal:
        return aligner.frame(prompt)
    mask = getattr(aligner.tokenizer, "mask_token_id", None)
    return None if mask is None else aligner.frame((*prompt, mask))
