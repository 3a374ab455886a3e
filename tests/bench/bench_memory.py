"""Peak memory of `rolecall ablate` and `rolecall scan` on N items, and on eight times as many.

    python tests/bench/bench_memory.py [MODEL] [-n 48] [--times 8] [--only ablate] [-- --seed 1]

Each run is a process of its own, started as a user would, and its peak resident memory is what the
system says of it. Figures are left out: a plotting library is not what grows. What follows `--`
is handed to the command. Prints one JSON object: MiB, ratio and growth of each command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = ("ablate", "scan")
START = "from rolecall.reports.cli import main; main()"
# Linux counts in KiB, macOS in bytes.
UNIT = 2**20 if sys.platform == "darwin" else 2**10


def peak(command: str, *rest: str) -> float:
    """The peak resident memory of `rolecall COMMAND …` in MiB.

    The caller must be small itself: on Linux a child's peak begins with its parent's.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.txt"
        call = [sys.executable, "-c", START, command, *rest, "--out", folder, "--no-figures"]
        with told.open("wb") as out:
            child = subprocess.Popen(call, stdout=out, stderr=out)
            _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said = told.read_text(errors="replace")
            raise SystemExit(f"rolecall {command} ended with code {child.returncode}:\n{said}")
    return used.ru_maxrss * UNIT / 2**20


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("-n", type=int, default=48)
    parser.add_argument("--times", type=int, default=8)
    parser.add_argument("--only", choices=COMMANDS)
    own, _, rest = " ".join(sys.argv[1:]).partition(" -- ")
    options = parser.parse_args(own.split())
    model = [options.model] if options.model else []
    said = {}
    for command in [options.only] if options.only else COMMANDS:
        few, many = (
            peak(command, *model, "-n", str(n), *rest.split())
            for n in (options.n, options.times * options.n)
        )
        said[command] = {
            f"MiB at n={options.n}": round(few),
            f"MiB at n={options.times * options.n}": round(many),
            "ratio": round(many / few, 3),
            "growth MiB": round(many - few),
        }
    print(json.dumps({"model": options.model or "embedded", **said}, indent=2))


if __name__ == "__main__":
    main()
