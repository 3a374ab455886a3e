"""Designs drawn from a seed: which planted heads, in which seats, of what kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import cast

from transformers import PreTrainedTokenizerFast

from rolecall.analyses.model import Model
from rolecall.analyses.models import load_model
from rolecall.analyses.planted import HELPERS, Design, Planted, Seat, plant
from rolecall.analyses.planted_variants import COPIES, also_for, copies, gain_of, speaks_for
from rolecall.analyses.planted_words import MASK
from rolecall.probes.toy import toy_aligner

ARCHITECTURES = ("gpt2", "llama", "bert")
JOBS: tuple[tuple[str, ...], ...] = (
    ("previous_token",),
    ("next_token",),
    ("current_token",),
    ("first_token",),
    ("duplicate_token",),
    ("previous_token", "induction", "fixed_offset"),
    ("delimiter", "frequent"),
    ("balance", "bracket"),
    ("rare_token", "recent_word"),
    ("governed", "subject_verb", "nearest_noun"),
    ("aside", "verb_object", "nearest_verb"),
    ("aside", "determiner", "nearest_determiner"),
    ("aside", "adjective", "nearest_adjective"),
    ("aside", "auxiliary", "nearest_auxiliary"),
    ("coreference", "nearest_person"),
    ("uniform",),
    ("random0", "random1"),
    ("random2", "random3"),
)
"""Heads that are planted together: helpers, the head itself, its impostor."""
IMPOSTORS: Mapping[str, str] = {
    "fixed_offset": "induction",
    "frequent": "delimiter",
    "recent_word": "rare_token",
    "nearest_noun": "subject_verb",
    "nearest_verb": "verb_object",
    "nearest_determiner": "determiner",
    "nearest_adjective": "adjective",
    "nearest_auxiliary": "auxiliary",
    "nearest_person": "coreference",
    "duplicate_token": "coreference",
}
"""The role that each impostor would be given by a naive score."""
BOTH_WAYS = {
    *("previous_token", "next_token", "current_token", "first_token", "delimiter", "rare_token"),
    *("fixed_offset", "frequent", "uniform", "coreference", "governed", "subject_verb"),
    *("random0", "random1", "random2", "random3"),
}
"""Heads that also work where what follows can be seen: the others count on the mask."""


def draw_design(architecture: str, *, seed: int, noise: float = 0.0) -> Design:
    """A design with as many jobs as fit into a random number of layers and heads.

    Args:
        architecture: `gpt2`, `llama` or `bert`.
        seed: Fixes everything but the noise's size.
        noise: See `Design`.
    """
    rng = Random(f"{architecture} {seed}")
    n_layers, n_heads = rng.choice((3, 4, 5)), rng.choice((4, 6, 8))
    names = chosen(architecture, room=n_layers * n_heads - 1 - COPIES, rng=rng)
    names += copies(names, rng)
    d_identity = rng.choice((32, 40, 48))
    seats = seating(names, n_layers=n_layers, n_heads=n_heads, rng=rng)
    return Design(
        architecture,
        seats,
        n_layers=n_layers,
        n_heads=n_heads,
        n_groups=n_heads // 2 if architecture == "llama" else n_heads,
        d_identity=d_identity,
        noise=noise,
        biased=rng.random() < 0.5,
        seed=seed,
        gains={seat: gain_of(name) for seat, name in seats.items()},
        speaks_for=speaks_for(seats),
        also_for=also_for(seats),
    )


def chosen(architecture: str, *, room: int, rng: Random) -> list[str]:
    """Heads of jobs in random order, each once, as long as there is room."""
    usable = BOTH_WAYS if architecture == "bert" else None
    names: list[str] = []
    for job in rng.sample(JOBS, len(JOBS)):
        if usable is None and "next_token" in job:
            continue
        new = [n for n in job if n not in names and (usable is None or n in usable)]
        if len(names) + len(new) <= room:
            names += new
    return names


def seating(
    names: list[str], *, n_layers: int, n_heads: int, rng: Random, tries: int = 10_000
) -> dict[Seat, str]:
    """A random seat for each head, helpers below those they help.

    Raises:
        ValueError: None was found.
    """
    seats: list[Seat] = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    order: list[str | None] = [*names, *[None] * (len(seats) - len(names))]
    rng.shuffle(order)
    for _ in range(tries):
        at = {name: i for i, name in enumerate(order) if name is not None}
        wrong = [n for n in names if n in HELPERS and not helped(n, at, seats)]
        if not wrong:
            return {seats[i]: name for name, i in at.items()}
        moved = rng.choice([at[wrong[0]], at[HELPERS[wrong[0]]]])
        other = rng.randrange(len(seats))
        order[moved], order[other] = order[other], order[moved]
    raise ValueError(f"{len(names)} heads do not fit {n_layers} layers of {n_heads}")


def helped(name: str, at: dict[str, int], seats: list[Seat]) -> bool:
    """Whether a head's helper stands in a lower layer."""
    return seats[at[HELPERS[name]]][0] < seats[at[name]][0]


def build(design: Design) -> tuple[Planted, Model]:
    """A design's planted model, over the words of the crafted data, and ready to be scanned."""
    tokenizer = word_tokenizer(causal=design.architecture != "bert")
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    bos = cast("int", tokenizer.convert_tokens_to_ids("<s>"))  # a list only for a list
    planted = plant(words, bos, design)
    return planted, load_model(planted.model, tokenizer=tokenizer)


def word_tokenizer(*, causal: bool) -> PreTrainedTokenizerFast:
    """One token a word; with CLS, SEP and a mask instead of BOS where the model sees both ways."""
    known = toy_aligner(causal=causal).tokenizer
    if causal:
        return known
    return PreTrainedTokenizerFast(
        tokenizer_object=known.backend_tokenizer,
        cls_token="<s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token=MASK,
    )
