"""A run folder as reports read it: the manifest and whatever tables are there, without torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from rolecall.analyses import head_names
from rolecall.analyses.manifest_file import read_manifest
from rolecall.analyses.tables import SCHEMAS, read_table

MADE_BY = {
    "scores": "rolecall scan",
    "effects": "rolecall ablate",
    "weights": "rolecall weights",
    "verdicts": "rolecall verdict",
    "heads": "rolecall verdict",
}
"""The tables of design §6, and the command that writes each."""

ALSO = {
    "composition": "rolecall weights",
    "pruning": "rolecall prune",
    "near_misses": "rolecall verdict",
    "sensitivity": "rolecall verdict",
}
"""Further tables, which a run may well do without."""

CSV = {
    "heads": ("layer", "head", "label", "tier"),
    "near_misses": ("layer", "head", "role", "reasons"),
    "sensitivity": ("threshold", "value", "moved_to", "flips"),
}
"""Tables kept as .csv, with the columns that reports need."""

NO_LABEL = "no clean label"
CANDIDATE = "pattern only"
"""The tier of a head in a run without verdicts: attention stands out, nothing was judged."""


@dataclass(frozen=True)
class Run:
    """What a run folder holds.

    Attributes:
        folder: Where it is.
        manifest: Its manifest.json; empty where there is none.
        tables: Name → rows, for every table found.
    """

    folder: Path
    manifest: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]

    @property
    def name(self) -> str:
        """What the manifest calls the model."""
        return str(self.manifest.get("model", {}).get("name") or self.folder.name)

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and query heads a layer."""
        model = self.manifest.get("model", {})
        if model.get("n_layers") and model.get("n_heads"):
            return int(model["n_layers"]), int(model["n_heads"])
        # What was measured of all heads comes first: a damaged table besides is not read for this.
        wanted = [name for name in MADE_BY if name in self.tables] or list(self.tables)
        found = [self.tables[name] for name in wanted]
        rows = [t for t in found if {"layer", "head"} <= set(t.columns)]
        return (
            max((int(t["layer"].max()) + 1 for t in rows if len(t)), default=0),
            max((int(t["head"].max()) + 1 for t in rows if len(t)), default=0),
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: what the run found, and its atlas."""
        # They read runs themselves, so they are imported only here.
        from rolecall.reports.notebook import run_html

        return run_html(self)  # pyright: ignore[reportArgumentType]: this file, by its other name

    def table(self, name: str) -> pd.DataFrame | None:
        """The rows of a table, or None where the run has none."""
        return self.tables.get(name)

    def missing(self) -> list[tuple[str, str]]:
        """Each table of design §6 that is not there, with the command that writes it."""
        return [(name, command) for name, command in MADE_BY.items() if name not in self.tables]


class Tables(Mapping[str, pd.DataFrame]):
    """Name → rows, each table being read when it is first asked for.

    So one that is damaged costs only what needs it. Asking for such a table raises `ValueError`.
    """

    def __init__(self, readers: Mapping[str, Callable[[], pd.DataFrame]]):
        self._readers = {name: cache(read) for name, read in readers.items()}

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self._readers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def read_run(folder: Path | str) -> Run:
    """The manifest of a run folder, and its tables as they are asked for.

    Raises:
        ValueError: There is no such folder, or it holds no table at all.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; give a run folder, as `rolecall scan` writes it")
    found = sorted(folder.glob("*.parquet"))
    readers: dict[str, Callable[[], pd.DataFrame]]
    readers = {path.stem: partial(_read, folder, path) for path in found}
    kept = [path for name in CSV if (path := folder / f"{name}.csv").is_file()]
    readers |= {path.stem: partial(_read_csv, path) for path in kept}
    if not readers:
        raise ValueError(f"{folder} holds no table; run `rolecall scan` into it first")
    there = (folder / "manifest.json").is_file()
    return Run(folder, read_manifest(folder) if there else {}, Tables(readers))


def rows_of(data: Run | pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows themselves, or the table of that name in a run.

    Raises:
        ValueError: The run has no such table.
    """
    if isinstance(data, pd.DataFrame):
        return data
    rows = data.table(name)
    if rows is None:
        command = {**MADE_BY, **ALSO}.get(name)
        way = f"; run `{command}` first" if command else ""
        raise ValueError(f"{data.folder} has no table {name!r}{way}")
    return rows


def shape_of(data: Run | pd.DataFrame, rows: pd.DataFrame) -> tuple[int, int]:
    """Layers and heads of a run, or as many as the rows show."""
    if isinstance(data, Run):
        return data.shape
    if rows.empty:
        raise ValueError("the table has no rows, so there is nothing to draw")
    return int(rows["layer"].max()) + 1, int(rows["head"].max()) + 1


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dictionaries."""
    return [{str(k): v for k, v in row.items()} for row in rows.to_dict("records")]


def head_name(layer: int, head: int) -> str:
    """`L5H1`, both counted from 0."""
    return head_names.head_name((int(layer), int(head)))


def parse_head(text: str, run: Run) -> tuple[int, int]:
    """The layer and head that `L5H1` names in this run.

    Raises:
        ValueError: It is no such name, or the run has no such head.
    """
    layer, head = head_names.named_head(text)
    if not all(run.shape):
        raise ValueError(
            f"no table in {run.folder} names a head; run `rolecall scan` into it first"
        )
    if layer >= run.shape[0] or head >= run.shape[1]:
        last = head_name(run.shape[0] - 1, run.shape[1] - 1)
        raise ValueError(f"this run has no head {text.strip()}; they go from L0H0 to {last}")
    return layer, head


def labels_of(data: Run | pd.DataFrame) -> pd.DataFrame:
    """One row a head: layer, head, label, tier and the roles it holds (a tuple).

    From heads.csv and the verdicts; without them, from the scores, where a head is a candidate
    (tier `pattern only`) for the roles that it is significant for, best margin first.
    """
    if isinstance(data, pd.DataFrame):
        return _with_roles(data)
    if "heads" in data.tables:
        return _with_roles(data.tables["heads"], data.table("verdicts"))
    return _candidates(rows_of(data, "scores"))


def without_label(data: Run | pd.DataFrame) -> str:
    """What to call a head without a label: judged and given none, or never judged."""
    unjudged = isinstance(data, Run) and "heads" not in data.tables
    return "stands out for no role" if unjudged else NO_LABEL


def significant(scores: pd.DataFrame) -> pd.Series:
    """Where a pattern stands out: `p_max` < .05 and the margin's interval above zero."""
    p_max = scores["p_max"].astype(float).fillna(1.0)
    return (p_max < 0.05) & (scores["margin_low"].astype(float).fillna(-1.0) > 0)


def _with_roles(heads: pd.DataFrame, verdicts: pd.DataFrame | None = None) -> pd.DataFrame:
    rows = heads.copy()
    rows["label"] = rows["label"].fillna(NO_LABEL).replace("", NO_LABEL)
    rows["tier"] = rows["tier"].astype(object).where(rows["tier"].notna(), None)
    listed = rows["roles"] if "roles" in rows else pd.Series("", index=rows.index)
    rows["roles"] = [
        _split(value, label) for value, label in zip(listed, rows["label"], strict=True)
    ]
    return rows


def _split(value: Any, label: str) -> tuple[str, ...]:
    """Roles of a cell of heads.csv, `role (A); role (B)`, the label first."""
    text = "" if value is None or value != value else str(value)
    names = [re.sub(r" \([A-E]\)$", "", part.strip()) for part in text.split(";")]
    names = [name for name in names if name and name != NO_LABEL]
    if label != NO_LABEL:
        names = [label, *(name for name in names if name != label)]
    return tuple(dict.fromkeys(names))


def _candidates(scores: pd.DataFrame) -> pd.DataFrame:
    shown = scores[significant(scores)].sort_values("margin", ascending=False, kind="stable")
    roles: dict[tuple[int, int], tuple[str, ...]] = {}
    for row in records(shown):
        at = row["layer"], row["head"]
        roles[at] = (*roles.get(at, ()), row["role"])
    heads = scores[["layer", "head", "kv_group"]].drop_duplicates().sort_values(["layer", "head"])
    held = [roles.get((row["layer"], row["head"]), ()) for row in records(heads)]
    heads = heads.reset_index(drop=True)
    heads["label"] = [names[0] if names else NO_LABEL for names in held]
    heads["tier"] = pd.Series([CANDIDATE if names else None for names in held], dtype=object)
    heads["roles"] = held
    return heads


def _read(folder: Path, path: Path) -> pd.DataFrame:
    if path.stem in SCHEMAS:
        return read_table(folder, path.stem)
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no table that can be read ({error}); {_again(path)}") from None


def _again(path: Path) -> str:
    command = (MADE_BY | ALSO).get(path.stem)
    return f"make it again with `{command}`" if command else "remove it, or make it again"


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        rows = pd.read_csv(path, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no table that can be read ({error}); {_again(path)}") from None
    lacking = [name for name in CSV[path.stem] if name not in rows.columns]
    if lacking:
        raise ValueError(f"{path} is not rolecall's {path.stem} table: no {', '.join(lacking)}")
    return rows
