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
    """Silences transformers' bars, notes and warnings inside, and restores them afterwards."""
    logger = logging.getLogger("transformers")
    level, bars = logger.level, hub_logging.is_progress_bar_enabled()
    logger.setLevel(logging.CRITICAL)
    hub_logging.disable_progress_bar()
    try:
        # The GGUF reader draws its bar whatever the setting, so standard error is held back too.
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        if bars:
            hub_logging.enable_progress_bar()
