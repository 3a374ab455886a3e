"""The wheel holds every file of the folders that it should, and nothing beside."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("data", "probes", "analyses", "reports")


@pytest.mark.slow
def test_the_wheel_holds_the_folders(tmp_path):
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "-q",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = {n for n in zipfile.ZipFile(wheel).namelist() if n.startswith("rolecall/")}
    tracked = subprocess.run(
        ["git", "ls-files", *FOLDERS], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    pictures = "reports/gallery/"  # shown by the README, of no use once installed
    kept = {
        f"rolecall/{name}"
        for name in tracked
        if name and not name.endswith(".md") and not name.startswith(pictures)
    }
    assert kept <= names, sorted(kept - names)[:5]
    assert not [n for n in zipfile.ZipFile(wheel).namelist() if n.startswith(("tests", "probes/"))]
