"""The two figures of README.md, drawn from a run: `python -m rolecall.reports.readme_figures`."""

from __future__ import annotations

import sys
from pathlib import Path

from rolecall.reports.atlas import atlas
from rolecall.reports.run import read_run
from rolecall.reports.score_effect import score_against_effect


def readme_figures(run: Path, folder: Path) -> list[Path]:
    """The pictures written: the atlas, and pattern against effect where there are effects."""
    found = read_run(run)
    atlas(found, save=folder / "atlas")
    written = [folder / "atlas.png"]
    if "effects" in found.tables:
        score_against_effect(found, save=folder / "score-against-effect")
        written.append(folder / "score-against-effect.png")
    for picture in written:  # README needs the pictures alone
        for kind in (".svg", ".pdf", ".csv"):
            picture.with_suffix(kind).unlink()
    return written


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m rolecall.reports.readme_figures RUN FOLDER")
    readme_figures(Path(sys.argv[1]), Path(sys.argv[2]))
