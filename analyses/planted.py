"""Planted models: small transformers in which it is known what every head does.

Their weights are set, not trained (`planted_weights.py`), in the manner of models compiled from
programs (Lindner et al. 2023, Tracr). A right classifier gives each head the role it was built
for and gives none to the impostors beside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from rolecall.analyses.planted_architectures import ARCHITECTURES, Weights, noisy
from rolecall.analyses.planted_heads import Head, Move
from rolecall.analyses.planted_roles import SIMPLE, Maker, total
from rolecall.analyses.planted_space import ANCHOR, MARKED, Space, codes, embedded, lay_out
from rolecall.analyses.planted_syntax import SYNTAX
from rolecall.analyses.planted_variants import VARIANTS, Seat, original
from rolecall.analyses.planted_weights import Geometry, Group, Learned, Rotary, group
from rolecall.analyses.planted_words import FEATURES, MASK, features

CATALOGUE: Mapping[str, Maker] = {**SIMPLE, **SYNTAX, **VARIANTS}
"""Every planted head by name."""
_HELPERS = {
    "induction": "previous_token",
    "bracket": "balance",
    "backup": "primary",
    "subject_verb": "governed",
    **dict.fromkeys(("determiner", "adjective", "auxiliary", "verb_object"), "aside"),
}
HELPERS: Mapping[str, str] = {
    name: _HELPERS[original(name)] for name in CATALOGUE if original(name) in _HELPERS
}
"""The head that must stand in a lower layer for another to work."""
POSITION = 2.0
"""Squared norm of what learned positions add to an embedding."""
N_ANGLES = 10
"""Frequencies of learned positions."""
HUM = 0.02
"""What every head adds to the logit of BOS, wherever it looks."""
SPARE = 4
"""Coordinates of a head beside those for an identity and a position."""


@dataclass(frozen=True)
class Design:
    """What varies between planted models.

    Attributes:
        architecture: `gpt2`, `llama` or `bert`.
        seats: Which head of the catalogue sits where; the seats left over are idle.
        n_layers: Number of layers.
        n_heads: Query heads a layer.
        n_groups: KV groups a layer.
        n_ctx: Longest input.
        d_identity: Width of a word's identity code.
        noise: Standard deviation of the noise on every attention weight, as a share of its
            matrix's root mean square.
        biased: Whether constants are held by biases.
        seed: Fixes coordinates, codes, votes and noise.
        gains: What a head adds to the logit difference of its answer when it looks at its
            target; 1 where nothing is said.
        speaks_for: The seat whose answer a head votes on; its own where nothing is said.
        also_for: Seats whose answers it votes on besides.
    """

    architecture: str
    seats: Mapping[Seat, str]
    n_layers: int = 2
    n_heads: int = 4
    n_groups: int = 4
    n_ctx: int = 128
    d_identity: int = 32
    noise: float = 0.0
    biased: bool = False
    seed: int = 0
    gains: Mapping[Seat, float] = field(default_factory=dict)
    speaks_for: Mapping[Seat, Seat] = field(default_factory=dict)
    also_for: Mapping[Seat, tuple[Seat, ...]] = field(default_factory=dict)

    def gain(self, seat: Seat) -> float:
        """What a head adds to the logit difference of each answer that it votes on."""
        return self.gains.get(seat, 1.0)

    def voices(self, seat: Seat) -> tuple[Seat, ...]:
        """The seats whose answers a head votes on."""
        return (self.speaks_for.get(seat, seat), *self.also_for.get(seat, ()))


@dataclass(frozen=True)
class Planted:
    """A planted model and the truth about it.

    Attributes:
        model: An ordinary Hugging Face model.
        design: What it was built from.
        heads: What every head does.
        votes: Each id's vote, −1 or 1: what a head that looks at it multiplies its gain with.
        answers: Each head's answer and foil: the ids whose logit difference it alone moves.
        mask: The id that an encoder is asked at; None where the vocabulary has none.
    """

    model: PreTrainedModel
    design: Design
    heads: Mapping[Seat, Head]
    votes: Float[Tensor, " d_vocab"]
    answers: Mapping[Seat, tuple[int, int]]
    mask: int | None = None

    @property
    def truth(self) -> dict[Seat, str | None]:
        """The role of each head, None where a right classifier gives none."""
        return {seat: head.role for seat, head in self.heads.items()}


def plant(words: Sequence[str], bos: int, design: Design) -> Planted:
    """The planted model of a design over these words, one id a word.

    Args:
        words: The vocabulary in the order of its ids.
        bos: Id of the token at the start of every input.
        design: What to build.

    Raises:
        ValueError: A head is unknown, or does not fit.
    """
    space, geometry = measures(design)
    every = [(layer, head) for layer in range(design.n_layers) for head in range(design.n_heads)]
    heads = {seat: seated(seat, design, space, geometry) for seat in every}
    draw = torch.Generator().manual_seed(design.seed)
    votes = torch.randint(0, 2, (len(words),), generator=draw) * 2.0 - 1
    tokens = token_rows(words, bos, votes, space, design.seed)
    answers = answer_ids(every, len(words), design.seed)
    weights = Weights(
        space=space,
        geometry=geometry,
        tokens=tokens,
        positions=position_rows(space, geometry, design.n_ctx),
        layers=[grouped(layer, heads, space, geometry, design) for layer in range(design.n_layers)],
        answers=answer_rows(tokens, bos, answers, space),
        biased=design.biased,
    )
    # Hugging Face draws weights first, which are then set: not from the caller's random state.
    with torch.random.fork_rng(devices=[]):
        model = ARCHITECTURES[design.architecture](weights)
    mask = words.index(MASK) if MASK in words else None
    return Planted(model, design, heads, votes, answers, mask)


def measures(design: Design) -> tuple[Space, Geometry]:
    """The axes of a design's stream and how its positions are told."""
    ranks = {"anchor": 1, "filler": 1, "ground": 1, "bos": 1, "vote": 1}
    ranks |= dict.fromkeys(("identity", "named", "before", "copied"), design.d_identity)
    ranks |= dict.fromkeys(("present", "depth", "aside", "object", "hum"), 1)
    ranks |= dict.fromkeys(FEATURES, 1)
    ranks |= {
        f"answer{layer}.{head}": 1
        for layer in range(design.n_layers)
        for head in range(design.n_heads)
    }
    if design.architecture == "llama":
        d_model = design.n_heads * math.ceil(sum(ranks.values()) / design.n_heads)
        return lay_out(ranks, d_model, design.seed), Rotary(4 * design.d_identity, 1e8)
    ranks |= {"position": 2 * N_ANGLES, "ramp": 1, "position_filler": 1}
    needed = design.d_identity + 2 * N_ANGLES + SPARE
    d_head = math.ceil(max(sum(ranks.values()) / design.n_heads, needed))
    space = lay_out(ranks, d_head * design.n_heads, design.seed)
    return space, Learned(d_head, spread_angles(design.n_ctx, design.seed), design.n_ctx)


def spread_angles(n_ctx: int, seed: int, tries: int = 200) -> Float[Tensor, " frequency"]:
    """Frequencies whose sum peaks once: of random sets the one with the lowest second peak."""
    rng = Random(seed)
    steps = 2 * math.pi / n_ctx * torch.arange(n_ctx)
    sets = [sorted(rng.sample(range(1, n_ctx // 2), N_ANGLES)) for _ in range(tries)]
    second = [(steps[1:, None] * torch.tensor(s)).cos().mean(-1).max().item() for s in sets]
    return steps[torch.tensor(sets[second.index(min(second))])]


def seated(seat: Seat, design: Design, space: Space, geometry: Geometry) -> Head:
    """The head in a seat, with the vote it casts for its own answer."""
    name = design.seats.get(seat, "uniform")
    if name not in CATALOGUE:
        raise ValueError(f"no planted head {name!r}; there are {', '.join(CATALOGUE)}")
    heard = total(space, *map(answer_axis, design.voices(seat)))
    vote = Move(space["vote"], heard, design.gain(seat))
    # Every head leaves a trace in the output, whatever it looks at.
    hum = Move(space.constant, space["hum"], HUM)
    return CATALOGUE[name](space, geometry).writing(vote, hum)


def answer_axis(seat: Seat) -> str:
    """The axis that a head writes its vote to."""
    return f"answer{seat[0]}.{seat[1]}"


def token_rows(
    words: Sequence[str], bos: int, votes: Float[Tensor, " d_vocab"], space: Space, seed: int
) -> Float[Tensor, "d_vocab d_model"]:
    """The token embedding: identity, vote and what is known of each word."""
    is_bos = (torch.arange(len(words)) == bos).float()[:, None]
    # A word with a capital is the same word.
    spelled = {word: i for i, word in enumerate(dict.fromkeys(word.lower() for word in words))}
    identity = codes(len(spelled), len(space.axes["identity"]), seed)
    identity = identity[[spelled[word.lower()] for word in words]]
    known = features(words)
    known |= {"identity": identity, "named": identity * known["name"], "vote": votes[:, None]}
    known = {name: rows * (1 - is_bos) for name, rows in known.items()} | {"bos": is_bos}
    return embedded(known, space, marked=MARKED - POSITION, filler="filler") + anchored(space)


def anchored(space: Space) -> Float[Tensor, "1 d_model"]:
    """What stands in every token embedding."""
    return ANCHOR * space["anchor"].T


def position_rows(space: Space, geometry: Geometry, n_ctx: int) -> Float[Tensor, "n_ctx d_model"]:
    """The position embedding, nothing where positions are rotary."""
    if isinstance(geometry, Rotary):
        return torch.zeros(n_ctx, space.d_model)
    at = torch.arange(n_ctx).float()
    # The first token is nowhere, so that only its own pull decides how much it draws.
    told = (at > 0).float()[:, None]
    held = {"position": geometry.code(at) * told, "ramp": at[:, None] / n_ctx}
    return embedded(held, space, marked=POSITION, filler="position_filler")


def answer_ids(seats: Sequence[Seat], d_vocab: int, seed: int) -> dict[Seat, tuple[int, int]]:
    """Two ids for each head, all different."""
    drawn = Random(seed).sample(range(1, d_vocab), 2 * len(seats))
    return dict(zip(seats, zip(drawn[::2], drawn[1::2], strict=True), strict=True))


def answer_rows(
    tokens: Float[Tensor, "d_vocab d_model"],
    bos: int,
    answers: Mapping[Seat, tuple[int, int]],
    space: Space,
) -> Float[Tensor, "d_vocab d_model"]:
    """The unembedding: copied identities, and for answers and foils their head's axis alone."""
    rows = tokens @ space["identity"] @ space["copied"].T
    rows[bos] = space["hum"][:, 0]
    for seat, (answer, foil) in answers.items():
        rows[answer] = space[answer_axis(seat)][:, 0] / 2
        rows[foil] = -space[answer_axis(seat)][:, 0] / 2
    return rows


def grouped(
    layer: int, heads: Mapping[Seat, Head], space: Space, geometry: Geometry, design: Design
) -> list[Group]:
    """The weights of a layer, noise included, a KV group at a time."""
    share = design.n_heads // design.n_groups
    draw = torch.Generator().manual_seed(1000 * design.seed + layer)
    members = [
        [heads[layer, first + i] for i in range(share)] for first in range(0, design.n_heads, share)
    ]
    clean = [group(sharing, space, geometry) for sharing in members]
    return [noisy(weights, design.noise, space, draw) for weights in clean]
