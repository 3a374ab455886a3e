"""Where a run is written: the folder that was named, or one for this process alone."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def folder_for(out: Path | None) -> Path:
    """The folder `out`; for None a new one, which is gone when Python ends.

    It is not gone sooner, for results and tables are read from it for as long as anyone likes.
    """
    if out is not None:
        return Path(out)
    made = Path(tempfile.mkdtemp(prefix="rolecall-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
