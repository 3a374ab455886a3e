"""Whether something can be written at a path, tried before the work that would be lost."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile


def require_folder(path: Path) -> None:
    """Nothing, if files can be written to this folder, which need not be there yet.

    Raises:
        ValueError: They cannot.
    """
    made: list[Path] = []
    try:
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file; name a folder")
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise ValueError(f"cannot write to {path} ({error.strerror})") from None
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def require_file(path: Path) -> None:
    """Nothing, if a file can be written here.

    Raises:
        ValueError: It cannot.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    require_folder(path.parent)
