"""The embedded model's folder, checked before it is used."""

import hashlib
from importlib.resources import files
from pathlib import Path

SUMS = "SHA256SUMS"
WAY_OUT = (
    "install rolecall again, or rebuild the embedded model with "
    "`python -m rolecall.data.train --out DIR`"
)


def embedded_path(folder: Path | None = None) -> Path:
    """The folder of the embedded model, in Hugging Face form, whose every file is as it should be.

    Args:
        folder: another folder with the same files, such as a rebuilt model; None for the one that
            comes with the package.

    Raises:
        ValueError: a file is missing or damaged.
    """
    folder = folder or Path(str(files("rolecall.data"))) / "model"
    sums = folder / SUMS
    if not sums.is_file():
        raise ValueError(f"{sums} is missing; {WAY_OUT}")
    for line in sums.read_text(encoding="utf-8").splitlines():
        wanted, name = line.split("  ", 1)
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing; {WAY_OUT}")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != wanted:
            raise ValueError(
                f"{path} is damaged: its sha256 is {found[:12]}…, and {SUMS} says "
                f"{wanted[:12]}…; {WAY_OUT}"
            )
    return folder
