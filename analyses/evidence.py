"""Evidence: the raw numbers per (link, layer, head), on disk, one Parquet file a role.

One row a link. `mass`, `hit` and `sink` hold one number a head, in the order of the file's own list
of heads, and `rival_mass` one such list a rival. Every statistic is worked out from this, without
the model. Rows are written batch by batch, so memory does not grow with the number of examples.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int

Head = tuple[int, int]
"""Layer and head, both from 0."""

Numbers = Float[np.ndarray, "link head"]


@dataclass(frozen=True, slots=True)
class LinkRow:
    """What is known of a link without the model.

    Attributes:
        example: Number of its example in the data set; a twin has that of its original.
        template: The example's template.
        twin: The link stands in the twin, not in the original.
        query: Positions looked from.
        target: Positions of the right key.
        offsets, nearest, first, same_word, frequency: see `rolecall.probes.accounts.Standing`.
        chance: Score of an even head here, by the role's kind of score.
    """

    example: int
    template: str
    twin: bool
    query: tuple[int, ...]
    target: tuple[int, ...]
    offsets: tuple[int, ...]
    nearest: bool | None
    first: bool | None
    same_word: bool | None
    frequency: bool | None
    chance: float

    @property
    def version(self) -> int:
        """A number for its example that an original and its twin do not share."""
        return 2 * self.example + self.twin


@dataclass(frozen=True)
class Block:
    """Some links of a role, whole examples with their twins.

    Attributes:
        rows: What is known of each link without the model.
        mass: Attention to the target.
        hit: Whether the target has the most attention.
        sink: Attention to the first position and special tokens.
        rivals: Attention to each rival; empty slots hold 0.
        has_rival: Which rival slots a link fills.
    """

    rows: tuple[LinkRow, ...]
    mass: Numbers
    hit: Numbers
    sink: Numbers
    rivals: Float[np.ndarray, "link head rival"]
    has_rival: Bool[np.ndarray, "link rival"]

    def pair(self) -> Int[np.ndarray, " link"]:
        """Each link's number of an original and its twin together."""
        return np.array([row.example for row in self.rows])

    def version(self) -> Int[np.ndarray, " link"]:
        """Each link's example, an original and its twin apart."""
        return np.array([row.version for row in self.rows])


class EvidenceWriter:
    """Writes a role's evidence; the file appears only when it is whole.

    Args:
        path: Where the file goes.
        heads: The heads that every row holds a number for, in order.
        facts: What else the file says of itself (role, score kind, fingerprint).
    """

    def __init__(self, path: Path, heads: Sequence[Head], facts: dict[str, Any]):
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        self._schema = _schema(len(heads)).with_metadata(
            {"rolecall": json.dumps({**facts, "heads": [list(h) for h in heads]}, sort_keys=True)}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> EvidenceWriter:
        self._file = pq.ParquetWriter(self._partial, self._schema)
        return self

    def append(self, block: Block) -> None:
        """Nothing; adds the block's links."""
        assert self._file is not None, "used outside its with-block"
        self._file.write_table(_to_arrow(block, self._schema))

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        assert self._file is not None
        self._file.close()
        if kind is None:
            os.replace(self._partial, self._path)
        else:
            self._partial.unlink(missing_ok=True)


@dataclass(frozen=True)
class Evidence:
    """A role's evidence on disk.

    Attributes:
        path: The file.
        heads: The heads of each row's numbers, in order.
        facts: What the file says of itself.
    """

    path: Path
    heads: tuple[Head, ...]
    facts: dict[str, Any]

    def rows(self) -> tuple[LinkRow, ...]:
        """What is known of every link without the model."""
        names = list(LinkRow.__dataclass_fields__)
        return _rows(pq.read_table(self.path, columns=names))

    def blocks(self) -> Iterator[Block]:
        """The links, some at a time, in the order they were written."""
        file = pq.ParquetFile(self.path)
        for group in range(file.num_row_groups):
            yield _from_arrow(file.read_row_group(group), len(self.heads))


def open_evidence(path: Path) -> Evidence:
    """The evidence in this file.

    Raises:
        ValueError: There is no such file, or it is not rolecall's.
    """
    try:
        stored = (pq.read_schema(path).metadata or {})[b"rolecall"]
        facts = json.loads(stored)
        heads = tuple((int(layer), int(head)) for layer, head in facts.pop("heads"))
    except FileNotFoundError:
        raise ValueError(f"no evidence at {path}; run `rolecall scan` first") from None
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise ValueError(f"{path} is no evidence of rolecall ({error}); scan again") from None
    return Evidence(path, heads, facts)


def _schema(n_heads: int) -> pa.Schema:
    per_head = pa.list_(pa.float32(), n_heads)
    flag = pa.bool_()
    positions = pa.list_(pa.int32())
    return pa.schema(
        [
            ("example", pa.int32()),
            ("template", pa.string()),
            ("twin", flag),
            *[("query", positions), ("target", positions), ("offsets", positions)],
            *[(name, flag) for name in ("nearest", "first", "same_word", "frequency")],
            ("chance", pa.float64()),
            *[(name, per_head) for name in ("mass", "hit", "sink")],
            ("rival_mass", pa.list_(per_head)),
        ]
    )


def _to_arrow(block: Block, schema: pa.Schema) -> pa.Table:
    columns: dict[str, Any] = {
        name: [getattr(row, name) for row in block.rows] for name in LinkRow.__dataclass_fields__
    }
    n_heads = block.mass.shape[1]
    for name in ("mass", "hit", "sink"):
        flat = pa.array(getattr(block, name).astype(np.float32).ravel())
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, n_heads)
    filled = block.rivals.transpose(0, 2, 1)[block.has_rival].astype(np.float32)
    inner = pa.FixedSizeListArray.from_arrays(pa.array(filled.ravel()), n_heads)
    ends = np.concatenate([[0], block.has_rival.sum(axis=1).cumsum()]).astype(np.int32)
    columns["rival_mass"] = pa.ListArray.from_arrays(pa.array(ends), inner)
    return pa.table(columns, schema=schema)


def _from_arrow(table: pa.Table, n_heads: int) -> Block:
    def numbers(column: pa.ChunkedArray) -> np.ndarray:
        return column.combine_chunks().flatten().to_numpy().reshape(len(table), n_heads)

    lists = table["rival_mass"].combine_chunks()
    counts = np.diff(lists.offsets.to_numpy())
    has_rival = np.arange(counts.max(initial=0)) < counts[:, None]
    rivals = np.zeros((len(table), has_rival.shape[1], n_heads), dtype=np.float32)
    rivals[has_rival] = lists.flatten().flatten().to_numpy().reshape(-1, n_heads)
    return Block(
        rows=_rows(table.select(list(LinkRow.__dataclass_fields__))),
        mass=numbers(table["mass"]),
        hit=numbers(table["hit"]),
        sink=numbers(table["sink"]),
        rivals=rivals.transpose(0, 2, 1),
        has_rival=has_rival,
    )


def _rows(table: pa.Table) -> tuple[LinkRow, ...]:
    fields: Iterator[dict[str, Any]] = (
        {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        for row in table.to_pylist()
    )
    return tuple(LinkRow(**row) for row in fields)
