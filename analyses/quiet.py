"""Loading without noise: progress bars and notes off, and everything back as it was."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

from transformers.utils import logging as hub_logging


@contextmanager
def quiet() -> Iterator[None]:
    """Silences the bars, notes and warnings of transformers and the hub inside, and only there."""
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    levels, bars = [log.level for log in loggers], hub_logging.is_progress_bar_enabled()
    for log in loggers:
        log.setLevel(logging.CRITICAL)
    hub_logging.disable_progress_bar()
    try:
        # The GGUF reader draws its bar whatever the setting, so standard error is held back too.
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(loggers, levels, strict=True):
            log.setLevel(level)
        if bars:
            hub_logging.enable_progress_bar()
