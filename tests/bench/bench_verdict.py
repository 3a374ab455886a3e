"""How long the inference takes: intervals, p-values, labels and their stability from evidence.

    python tests/bench/bench_verdict.py --resamples 2000 --heads 1000 --roles 15

Made-up evidence of that size is written to a folder that is thrown away; no model is run. Prints
CPU seconds, which on a busy machine say more than the clock, and the clock's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from rolecall.analyses.evidence import Block, EvidenceWriter, LinkRow, open_evidence
from rolecall.analyses.score_table import Settings, join, score_role
from rolecall.analyses.tables import write_json, write_table
from rolecall.analyses.verdict import verdict
from rolecall.probes.base import Crafted, Probe

EXAMPLES, LINKS, TEMPLATES, RIVALS = 96, 4, 12, 2


def made_up(role: int, n_heads: int) -> Block:
    """Evidence of a role: one head in fifty looks at the target."""
    rng = np.random.default_rng(role)
    n_links = EXAMPLES * LINKS
    able = rng.random(n_heads) < 0.02
    mass = np.where(able, 0.8, 0.1) + rng.uniform(-0.1, 0.1, (n_links, n_heads))
    rows = tuple(
        LinkRow(
            example=link // LINKS,
            template=f"t{link // LINKS % TEMPLATES}",
            twin=False,
            query=(9,),
            target=(5,),
            offsets=(-1 - link % 7,),
            nearest=link % 2 == 0,
            first=None,
            same_word=None,
            frequency=None,
            chance=0.1,
        )
        for link in range(n_links)
    )
    return Block(
        rows=rows,
        mass=mass.astype(np.float32),
        hit=(mass > 0.5).astype(np.float32),
        sink=np.full_like(mass, 0.2, dtype=np.float32),
        rivals=np.full((n_links, n_heads, RIVALS), 0.05, dtype=np.float32),
        has_rival=np.ones((n_links, RIVALS), dtype=bool),
    )


def no_data(aligner, *, n: int, seed: int) -> Crafted:
    """No examples; the evidence is made up."""
    return Crafted(())


def main() -> None:
    """Nothing; prints the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("resamples", 2000), ("heads", 1000), ("roles", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    heads = [(n // 25, n % 25) for n in range(asked.heads)]
    probes = [
        Probe(f"role{n}", "syntactic", "d", "s", no_data, "mass", ("offset", "nearest"), None, "n")
        for n in range(asked.roles)
    ]
    with tempfile.TemporaryDirectory(prefix="rolecall-bench-") as name:
        folder = Path(name)
        for number, probe in enumerate(probes):
            path = folder / "evidence" / f"{probe.name}.parquet"
            with EvidenceWriter(path, heads, {"score_kind": "mass"}) as writer:
                writer.append(made_up(number, asked.heads))
        write_json(folder / "manifest.json", {"roles": {p.name: {"no_task": "n"} for p in probes}})
        with timed("scores: intervals, permutations, maximum statistic"):
            settings = Settings(n_resamples=asked.resamples)
            scores = {
                probe.name: score_role(
                    open_evidence(folder / "evidence" / f"{probe.name}.parquet"),
                    probe,
                    group_size=1,
                    settings=settings,
                )
                for probe in probes
            }
            write_table(folder, "scores", join(scores))
        with timed("verdict: rules, conditioning, stability, sweep, tables"):
            found = verdict(folder, n_resamples=asked.resamples)
    print(f"{(found.heads['label'] != 'no clean label').sum()} of {asked.heads} heads labelled")


class timed:
    """Prints what a block took."""

    def __init__(self, what: str):
        self.what = what

    def __enter__(self) -> None:
        self.cpu, self.clock = time.process_time(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        cpu, clock = time.process_time() - self.cpu, time.perf_counter() - self.clock
        print(f"{self.what}: {cpu:.1f} s of CPU, {clock:.1f} s")


if __name__ == "__main__":
    main()
