"""Evidence made without a model: blocks of links with known numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rolecall.analyses.evidence import Block, Evidence, EvidenceWriter, LinkRow, open_evidence


def link_row(example: int, *, template: str, twin: bool = False, **changes) -> LinkRow:
    known = {"query": (5,), "target": (2,), "offsets": (-3,), "nearest": False, "first": True}
    more = {"same_word": None, "frequency": None, "chance": 0.2}
    return LinkRow(example=example, template=template, twin=twin, **{**known, **more, **changes})


def random_block(rows: list[LinkRow], *, n_heads: int, n_rivals: int, seed: int) -> Block:
    rng = np.random.default_rng(seed)
    n = len(rows)
    shares = rng.dirichlet(np.ones(n_rivals + 2), size=(n, n_heads)).astype(np.float32)
    has_rival = np.ones((n, n_rivals), dtype=bool)
    return Block(
        rows=tuple(rows),
        mass=shares[..., 0],
        hit=(shares[..., 0] > shares[..., 1:].max(axis=-1)).astype(np.float32),
        sink=shares[..., 1],
        rivals=shares[..., 2:],
        has_rival=has_rival,
    )


def write(path: Path, blocks: list[Block], *, layers: int, heads: int, **facts) -> Evidence:
    named = [(layer, head) for layer in range(layers) for head in range(heads)]
    with EvidenceWriter(path, named, {"role": "made_up", **facts}) as writer:
        for block in blocks:
            writer.append(block)
    return open_evidence(path)
