"""Tables and JSON of a run folder: exact columns, whole files, null for what is missing."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from rolecall.analyses.tables import SCHEMAS, plain, read_json, read_table, write_json, write_table

DESIGN = [
    *("role", "family", "layer", "head", "kv_group", "score_kind", "score", "ci_low", "ci_high"),
    *("chance", "baseline", "baseline_name", "margin", "margin_low", "specificity"),
    *(
        "specificity_low",
        "consistency",
        "off_baseline",
        "sink",
        "sink_adjusted",
        "p_value",
        "p_max",
    ),
    *("q_value", "n_links", "n_examples", "n_templates"),
]


def two_rows():
    row = dict.fromkeys(DESIGN, 0.5) | {"role": "b", "family": "f", "score_kind": "mass"}
    row |= {"baseline_name": "even", "layer": 0, "head": 1, "kv_group": 0}
    row |= {"n_links": 3, "n_examples": 2, "n_templates": 1, "ci_low": np.nan}
    return pd.DataFrame([row, row | {"role": "a", "layer": 1}])


def test_the_scores_table_has_the_columns_of_the_design_in_their_order():
    assert SCHEMAS["scores"].names == DESIGN


def test_a_table_comes_back_sorted_with_null_for_what_is_missing(tmp_path):
    write_table(tmp_path, "scores", two_rows())
    rows = read_table(tmp_path, "scores")
    assert list(rows["role"]) == ["a", "b"]
    import pyarrow.parquet as pq

    stored = pq.read_table(tmp_path / "scores.parquet")["ci_low"]
    assert stored.null_count == 2, "null, not NaN"


def test_the_same_rows_give_the_same_bytes(tmp_path):
    write_table(tmp_path / "a", "scores", two_rows())
    write_table(tmp_path / "b", "scores", two_rows().iloc[::-1])
    one, other = (tmp_path / x / "scores.parquet" for x in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_missing_and_foreign_tables_are_one_clear_line(tmp_path):
    with pytest.raises(ValueError, match=r"has no scores.parquet; run `rolecall scan` first"):
        read_table(tmp_path, "scores")
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "scores.parquet")
    with pytest.raises(ValueError, match="is not rolecall's scores table: it lacks role"):
        read_table(tmp_path, "scores")
    (tmp_path / "scores.parquet").write_bytes(b"junk")
    with pytest.raises(ValueError, match="is no table that can be read"):
        read_table(tmp_path, "scores")


def test_c55_numpy_torch_and_nan_become_strict_json(tmp_path):
    value = {"a": np.float32(0.5), "b": torch.tensor(2.0), "c": float("nan"), "d": np.int64(3)}
    write_json(tmp_path / "x.json", value | {"e": [np.float64("inf"), None], 7: np.arange(2)})

    def refuse(text):
        raise AssertionError(text)

    text = (tmp_path / "x.json").read_text()
    read = json.loads(text, parse_constant=refuse)
    assert read == {"a": 0.5, "b": 2.0, "c": None, "d": 3, "e": [None, None], "7": [0, 1]}
    assert isinstance(read["d"], int)


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"is missing: is .* a run folder"):
        read_json(tmp_path / "manifest.json")


def test_plain_leaves_flags_and_text_alone():
    assert plain({"a": True, "b": "x", "c": None}) == {"a": True, "b": "x", "c": None}
