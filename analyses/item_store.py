"""Per-item effects on disk: a block for each (task, kind, layer), whole or absent, then one file.

A block is finished once its file has its name. A run that is killed loses the block it was at; the
next run, if it asks for the same things of the same model, begins there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from rolecall.analyses.heads import Unit
from rolecall.analyses.tables import plain, replace_file

SCHEMA = pa.schema(
    [("item", pa.int64()), ("template", pa.string()), ("heads", pa.string())]
    + [(name, pa.int64()) for name in ("layer", "head", "kv_group")]
    + [(name, pa.float64()) for name in ("clean", "control", "total", "direct", "kl")]
)

SETS = -1
"""Stands for the block of sets that span layers, which comes after all layers."""


@dataclass(frozen=True)
class ItemStore:
    """The effects of one kind of replacement on one task's items.

    Attributes:
        folder: The run's `effects` folder.
        task: The task's name.
        kind: What heads are replaced by.
        fingerprint: Of everything that the numbers depend on.
    """

    folder: Path
    task: str
    kind: str
    fingerprint: str

    @property
    def path(self) -> Path:
        """Where the finished file is."""
        return self.folder / "items" / f"{self.task}-{self.kind}.parquet"

    def block(self, layer: int) -> Path:
        """Where a layer's block is."""
        name = "sets" if layer == SETS else f"L{layer:03d}"
        return self.folder / "blocks" / f"{self.task}-{self.kind}" / f"{name}.parquet"

    def finished(self) -> bool:
        """Whether the whole file is there, made of the same things."""
        return fingerprint_of(self.path) == self.fingerprint

    def has(self, layer: int) -> bool:
        """Whether the layer's block is there, made of the same things."""
        return fingerprint_of(self.block(layer)) == self.fingerprint

    def write(self, layer: int, rows: pd.DataFrame) -> None:
        """Nothing; writes a layer's block."""
        table = pa.Table.from_pandas(rows, schema=SCHEMA, preserve_index=False)
        _write(self.block(layer), table, {"fingerprint": self.fingerprint})

    def finish(self, layers: Sequence[int], facts: dict[str, Any]) -> None:
        """Nothing; joins the blocks, one at a time, into one file that also says `facts`."""
        whole = {**facts, "task": self.task, "kind": self.kind, "fingerprint": self.fingerprint}
        schema = SCHEMA.with_metadata(_note(whole))

        def join(partial: Path) -> None:
            with pq.ParquetWriter(partial, schema) as writer:
                for layer in layers:
                    block = pq.read_table(self.block(layer))
                    writer.write_table(block.cast(SCHEMA).replace_schema_metadata(_note(whole)))

        replace_file(self.path, join)
        shutil.rmtree(self.block(0).parent, ignore_errors=True)


def fingerprint_of(path: Path) -> str | None:
    """What the file was made of; None where there is none, or none that can be read."""
    try:
        return facts_of(path).get("fingerprint")
    except ValueError:
        return None


def facts_of(path: Path) -> dict[str, Any]:
    """What the file says of itself.

    Raises:
        ValueError: It cannot be read.
    """
    try:
        note = (pq.read_schema(path).metadata or {}).get(b"rolecall")
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{path} cannot be read ({error})") from error
    return json.loads(note) if note else {}


def read_items(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The per-item effects in a file, and what it says of them."""
    rows = pq.read_table(path).replace_schema_metadata(None).to_pandas()
    whole = {name: "Int64" for name in ("layer", "head", "kv_group")}
    return rows.astype(whole), facts_of(path)


def unit_columns(unit: Unit, group_size: int) -> dict[str, Any]:
    """How a row names what was removed: null where a column does not apply."""
    heads = {head for _, head in unit.heads}
    groups = {head // group_size for head in heads}
    single = len(unit.heads) == 1
    return {
        "heads": unit.name,
        "layer": unit.layer if unit.one_layer else None,
        "head": next(iter(heads)) if single else None,
        "kv_group": next(iter(groups)) if unit.one_layer and len(groups) == 1 else None,
    }


def _note(facts: dict[str, Any]) -> dict[bytes, bytes]:
    return {b"rolecall": json.dumps(plain(facts), sort_keys=True).encode()}


def _write(path: Path, table: pa.Table, facts: dict[str, Any]) -> None:
    noted = table.replace_schema_metadata(_note(facts))
    replace_file(path, lambda partial: pq.write_table(noted, partial))
