"""A run that is killed in the middle, by the system and not by an exception, and started again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.models import load_model
from rolecall.analyses.sweep import Sweep
from tests import tiny_models
from tests.test_ablate import choices

ROOT = Path(__file__).resolve().parents[1]
RUN = """
import sys
from pathlib import Path
from rolecall.analyses.ablate import Settings, ablate
from rolecall.analyses.models import load_model
from tests.test_ablate import choices
ablate(load_model(sys.argv[1]), choices(n=400), settings=Settings(damage=0), out=Path(sys.argv[2]))
"""

pytestmark = pytest.mark.slow


def blocks(out):
    return set((out / "effects" / "blocks").glob("*/L*.parquet"))


def test_after_kill_9_no_table_reads_as_whole_and_finished_blocks_are_not_run_again(
    tmp_path, monkeypatch
):
    folder, out = tiny_models.save("llama", tmp_path / "tiny"), tmp_path / "cut"
    model, settings = load_model(str(folder)), Settings(damage=0)
    whole = ablate(model, choices(n=400), settings=settings, out=tmp_path / "whole")
    # A table of an earlier run lies there: it must not stand beside half of this one.
    ablate(model, choices(n=4), settings=settings, out=out)
    child = subprocess.Popen([sys.executable, "-c", RUN, str(folder), str(out)], cwd=ROOT)
    until = time.monotonic() + 120
    while len(blocks(out)) < 2:
        assert child.poll() is None, "ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.005)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = {(path.parent.name, path.stem) for path in blocks(out)}
    assert 2 <= len(kept) < 6
    assert not (out / "effects.parquet").exists()

    again, block = set(), Sweep._block

    def noted(self, layer, kind, means):
        again.add((f"choices-{kind}", f"L{layer:03d}"))
        return block(self, layer, kind, means)

    monkeypatch.setattr(Sweep, "_block", noted)
    ablate(model, choices(n=400), settings=settings, out=out)
    assert not again & kept
    assert len(again | kept) == 6
    assert not blocks(out)
    assert (out / "effects.parquet").read_bytes() == (whole.folder / "effects.parquet").read_bytes()
