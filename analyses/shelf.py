"""Tensors put aside on disk, so that memory does not grow with the number of items."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shelf:
    """Named sets of tensors in a folder that is thrown away."""

    folder: Path
    device: torch.device

    def put(self, name: str, **tensors: Tensor) -> None:
        """Nothing; what was there under this name is replaced."""
        # A view would take the whole of what it looks at to disk.
        torch.save({key: value.clone() for key, value in tensors.items()}, self.folder / name)

    def get(self, name: str) -> dict[str, Tensor]:
        """What was put there."""
        return torch.load(self.folder / name, map_location=self.device, weights_only=True)


@contextmanager
def open_shelf(device: torch.device) -> Iterator[Shelf]:
    """A shelf that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="rolecall-shelf-") as folder:
        yield Shelf(Path(folder), device)
