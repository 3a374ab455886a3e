"""The heads of a model: one by name, several together, all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rolecall.analyses.head_names import Head, head_name, named_head, named_sets
from rolecall.analyses.models import Model


@dataclass(frozen=True)
class Unit:
    """What is removed together: one head, the query heads of one KV group, or a set.

    Attributes:
        heads: In order of layer, then head.
        group: The KV group that is meant as a whole, or None.
    """

    heads: tuple[Head, ...]
    group: int | None = None

    @property
    def layer(self) -> int:
        """The first layer that is touched."""
        return self.heads[0][0]

    @property
    def one_layer(self) -> bool:
        """All heads stand in one layer."""
        return self.heads[0][0] == self.heads[-1][0]

    @property
    def name(self) -> str:
        """`L5H1`, or `L5H1+L6H0` for a set."""
        return "+".join(head_name(head) for head in self.heads)

    def at(self, layer: int) -> tuple[int, ...]:
        """The heads of the unit in one layer."""
        return tuple(head for at, head in self.heads if at == layer)


def parse_head(text: str, model: Model) -> Head:
    """The layer and head that a name like `L5H1` means in this model.

    Raises:
        ValueError: It is no such name, or the model has no such layer or head.
    """
    return require_head(named_head(text), model)


def require_head(head: Head, model: Model) -> Head:
    """The head, if the model has it.

    Raises:
        ValueError: The layer or the head is past the end, or that layer has no attention.
    """
    layer, index = head
    if not 0 <= layer < model.n_layers:
        raise ValueError(
            f"{head_name(head)}: {model.name} has {model.n_layers} layers, L0 to "
            f"L{model.n_layers - 1}"
        )
    if not 0 <= index < model.n_heads:
        raise ValueError(
            f"{head_name(head)}: {model.name} has {model.n_heads} query heads a layer, H0 to "
            f"H{model.n_heads - 1}"
        )
    if layer not in model.pattern_layers:
        raise ValueError(f"{head_name(head)}: layer {layer} of {model.name} has no attention")
    return head


def parse_units(texts: Iterable[str], model: Model) -> tuple[Unit, ...]:
    """One unit for each name; `L5H1+L6H0` is a set removed together.

    Raises:
        ValueError: A name is wrong, or the model has no such head.
    """
    units = [
        Unit(tuple(sorted({require_head(head, model) for head in heads})))
        for heads in named_sets(texts)
    ]
    return tuple(dict.fromkeys(units))


def all_heads(model: Model) -> tuple[Unit, ...]:
    """Every query head of the model, each by itself."""
    heads = [(layer, head) for layer in model.pattern_layers for head in range(model.n_heads)]
    return tuple(Unit((head,)) for head in heads)


def kv_groups(model: Model, within: Sequence[Unit] | None = None) -> tuple[Unit, ...]:
    """Every KV group of the model (or those that hold a head of `within`), as one unit each."""
    size = model.n_heads // model.n_kv_heads
    wanted = {
        (layer, head // size) for unit in within or all_heads(model) for layer, head in unit.heads
    }
    return tuple(
        Unit(tuple((layer, group * size + i) for i in range(size)), group)
        for layer, group in sorted(wanted)
    )
