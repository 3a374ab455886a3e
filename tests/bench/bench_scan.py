"""What a scan costs: time against plain eager forward passes, and memory against more examples.

    python tests/bench/bench_scan.py MODEL [-n 48] [--rounds 3]

Time: the patterns of every role's batches read and reduced, against plain eager Hugging Face
forward passes (logits included) over the same batches, in turn in one process; the median ratio.
Memory: the peak of a child process that scans n and then 8 n examples.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from rolecall.analyses import load_model, scan
from rolecall.analyses.scan import batches, read_batch, tokens_a_batch, versions_of
from rolecall.probes.registry import known


def main() -> None:
    """Prints both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("-n", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peak", action="store_true", help="scan once and print the peak (MiB)")
    options = parser.parse_args()
    if options.peak:
        print(peak(options.model, options.n))
        return
    ratios = compare(options.model, options.n, options.rounds)
    print(f"scan / plain eager forward: median {statistics.median(ratios):.3f} of {ratios}")
    one, eight = (child_peak(options.model, n) for n in (options.n, 8 * options.n))
    print(f"peak memory at n={options.n}: {one:.0f} MiB, at n={8 * options.n}: {eight:.0f} MiB")
    print(f"grows by {eight - one:.0f} MiB ({100 * (eight / one - 1):.1f} %)")


def compare(name: str, n: int, rounds: int) -> list[float]:
    """Per round, the time to read and reduce all patterns over that of plain forward passes."""
    model = load_model(name)
    plain = model.plain
    plain.set_attn_implementation("eager")
    work = []
    for probe in known():
        if not (probe.needs_future and model.causal):
            data = probe.dataset(model.aligner, n=n, seed=0)
            work += [(probe, batch) for batch in batches(data.examples, tokens_a_batch(model))]
    heads = [(layer, head) for layer in model.pattern_layers for head in range(model.n_heads)]

    def plain_pass(batch) -> None:
        ids = torch.tensor([v.token_ids for v in versions_of(batch)])
        with torch.no_grad():
            plain(ids) if not model.causal else plain(ids, use_cache=False)

    ratios = []
    for _ in range(rounds + 1):
        ours = theirs = 0.0
        for probe, batch in work:
            started = time.perf_counter()
            read_batch(model, probe.score_kind, batch, heads)
            middle = time.perf_counter()
            plain_pass(batch)
            ours += middle - started
            theirs += time.perf_counter() - middle
        ratios.append(round(ours / theirs, 3))
    return ratios[1:]


def peak(name: str, n: int) -> float:
    """The peak resident memory of this process after a scan, in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        scan(load_model(name), n=n, out=Path(folder))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child_peak(name: str, n: int) -> float:
    """The same of a fresh process."""
    command = [sys.executable, __file__, name, "-n", str(n), "--peak"]
    return float(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
    )


if __name__ == "__main__":
    main()
