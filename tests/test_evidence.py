"""Evidence on disk: what goes in comes out, whole or not at all."""

import numpy as np
import pytest

from rolecall.analyses.evidence import EvidenceWriter, open_evidence
from tests.synthetic_evidence import link_row, random_block, write


def some_blocks():
    rows = [link_row(i, template=f"t{i % 3}", query=(i, i + 1), same_word=None) for i in range(7)]
    one = random_block(rows[:4], n_heads=6, n_rivals=3, seed=0)
    one.has_rival[1, 1:] = False
    one.rivals[1, :, 1:] = 0.0
    return [one, random_block(rows[4:], n_heads=6, n_rivals=2, seed=1)]


def test_what_goes_in_comes_out(tmp_path):
    blocks = some_blocks()
    stored = write(tmp_path / "made_up.parquet", blocks, layers=2, heads=3)
    assert stored.heads == tuple((layer, head) for layer in range(2) for head in range(3))
    for wrote, read in zip(blocks, stored.blocks(), strict=True):
        assert read.rows == wrote.rows
        for name in ("mass", "hit", "sink", "rivals", "has_rival"):
            np.testing.assert_array_equal(getattr(read, name), getattr(wrote, name))
    assert stored.rows() == tuple(row for block in blocks for row in block.rows)


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path in paths:
        write(path, some_blocks(), layers=2, heads=3)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_run_that_breaks_off_leaves_no_file_that_reads_as_whole(tmp_path):
    path = tmp_path / "made_up.parquet"

    def break_off():
        with EvidenceWriter(path, [(0, 0)], {}) as writer:
            writer.append(random_block([link_row(0, template="t")], n_heads=1, n_rivals=1, seed=0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_and_a_foreign_file_are_one_clear_line(tmp_path):
    with pytest.raises(ValueError, match="no evidence at"):
        open_evidence(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("not a table")
    with pytest.raises(ValueError, match="is no evidence of rolecall"):
        open_evidence(tmp_path / "text.parquet")
