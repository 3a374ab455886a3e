"""The tables of a run folder: their columns, how they are written, and how they are read back.

Imports pandas and pyarrow only, so that reports can be made without torch. Design §6: missing is
null, rows are sorted, and the same numbers give the same bytes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

TEXT, WHOLE, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

SCORES = pa.schema(
    [("role", TEXT), ("family", TEXT), ("layer", WHOLE), ("head", WHOLE), ("kv_group", WHOLE)]
    + [("score_kind", TEXT)]
    + [(name, REAL) for name in ("score", "ci_low", "ci_high", "chance", "baseline")]
    + [("baseline_name", TEXT)]
    + [
        (name, REAL)
        for name in (
            *("margin", "margin_low", "specificity", "specificity_low", "consistency"),
            *("off_baseline", "sink", "sink_adjusted", "p_value", "p_max", "q_value"),
        )
    ]
    + [(name, WHOLE) for name in ("n_links", "n_examples", "n_templates")]
)

EFFECTS = pa.schema(
    [("task", TEXT), ("layer", WHOLE), ("head", WHOLE), ("kv_group", WHOLE)]
    + [("ablation", TEXT), ("metric", TEXT)]
    + [
        (name, REAL)
        for name in (
            *("clean", "total", "total_low", "total_high", "direct", "indirect", "self_repair"),
            *("p_value", "p_max", "q_value", "generic_damage"),
        )
    ]
    + [("n_items", WHOLE)]
    # Design §6 ends here.
    + [("heads", TEXT), ("direct_low", REAL), ("direct_high", REAL), ("direct_exact", FLAG)]
    + [(name, REAL) for name in ("kl", "damage_low", "damage_high", "per_damage")]
    + [("clean_accuracy", REAL), ("control", REAL), ("interpretable", FLAG), ("replaced_by", TEXT)]
)

WEIGHTS = pa.schema(
    [("layer", WHOLE), ("head", WHOLE), ("kv_group", WHOLE)]
    + [(name, REAL) for name in ("ov_copying", "ov_copying_rank", "qk_previous_token")]
    # Design §6 ends with "…"; here: the strongest head upstream of the queries, keys and values.
    + [
        (f"{kind}_{name}", REAL if name == "composition" else WHOLE)
        for kind in ("q", "k", "v")
        for name in ("composition", "from_layer", "from_head")
    ]
)

COMPOSITION = pa.schema(
    [
        *[("kind", TEXT), ("from_layer", WHOLE), ("from_head", WHOLE)],
        *[("layer", WHOLE), ("head", WHOLE), ("score", REAL), ("excess", REAL)],
    ]
)

VERDICTS = pa.schema(
    [("layer", WHOLE), ("head", WHOLE), ("role", TEXT), ("tier", TEXT), ("reasons", TEXT)]
    # Design §6 ends here.
    + [("family", TEXT), ("kv_group", WHOLE), ("score", REAL), ("margin", REAL)]
    + [("task", TEXT), ("ablation", TEXT), ("effect", TEXT)]
    + [(name, REAL) for name in ("total", "total_low", "total_high", "direct", "ratio")]
    + [("conditioned", REAL), ("stability", REAL)]
)

SCHEMAS: dict[str, pa.Schema] = {
    "scores": SCORES,
    "effects": EFFECTS,
    "weights": WEIGHTS,
    "composition": COMPOSITION,
    "verdicts": VERDICTS,
}
NAMED: dict[str, int] = {"effects": 18, "weights": 6, "verdicts": 5}
"""How many of a table's columns design §6 names; the others a reader may not count on."""
SORTED_BY: dict[str, list[str]] = {
    "scores": ["role", "layer", "head"],
    "weights": ["layer", "head"],
    "composition": ["kind", "layer", "head", "from_layer", "from_head"],
    "verdicts": ["role", "layer", "head"],
    "effects": ["task", "ablation", "layer", "head", "kv_group", "heads"],
}


def write_table(folder: Path, name: str, rows: pd.DataFrame) -> Path:
    """The path of `<name>.parquet`, written whole or not at all.

    Raises:
        ValueError: A column of the table's schema is missing, or a number is not finite.
    """
    schema = SCHEMAS[name]
    missing = [column for column in schema.names if column not in rows.columns]
    if missing:
        raise ValueError(f"table {name!r} lacks the columns {', '.join(missing)}")
    ordered = rows.sort_values(SORTED_BY[name], kind="stable")[schema.names]
    table = pa.Table.from_pandas(ordered, schema=schema, preserve_index=False)
    table = table.replace_schema_metadata(None)
    path = folder / f"{name}.parquet"
    replace_file(path, lambda partial: pq.write_table(table, partial))
    return path


class Lacking(ValueError):
    """What a run folder lacks: the file is not there, or is something else by that name."""


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """The rows of `<name>.parquet` of a run folder.

    Raises:
        Lacking: The table is not there, or lacks columns that design §6 names.
        ValueError: The file is there and cannot be read.
    """
    path = Path(folder) / f"{name}.parquet"
    if not path.is_file():
        raise Lacking(f"{folder} has no {name}.parquet; {_MADE_BY.get(name, 'make it')} first")
    try:
        rows = pd.read_parquet(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path} is no table that can be read ({error}); make it again") from None
    wanted = SCHEMAS[name].names[: NAMED.get(name)]
    missing = [column for column in wanted if column not in rows.columns]
    if missing:
        raise Lacking(f"{path} is not rolecall's {name} table: it lacks {', '.join(missing)}")
    return rows


_MADE_BY = {
    "scores": "run `rolecall scan`",
    "effects": "run `rolecall ablate`",
    "weights": "run `rolecall weights`",
    "verdicts": "run `rolecall verdict`",
}


def replace_file(path: Path, write) -> None:
    """Nothing; `write(partial)` makes the file, which then takes the place of `path` at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Nothing; writes strict JSON: sorted keys, null for what is missing, never NaN."""
    text = json.dumps(plain(value), indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    replace_file(path, lambda partial: partial.write_text(text + "\n", encoding="utf-8"))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        Lacking: The file is missing or holds no object.
        ValueError: The file is there and is no JSON.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise Lacking(f"{path} is missing: is {path.parent} a run folder?") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise Lacking(f"{path} holds a {type(value).__name__}, not an object")
    return value


def plain(value: Any) -> Any:
    """The value in Python's own types: numpy and torch scalars unwrapped, NaN and ±inf as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return plain(value.item())
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value
