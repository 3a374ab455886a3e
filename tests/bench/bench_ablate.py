"""How fast effects are, against the textbook loop and against plain matrix multiplication.

All heads of a model, 8 prompts of 32 tokens, zero ablation, logit difference at the last position.

    python tests/bench/bench_ablate.py MODEL [--threads 2] [--clock wall]

Prints one JSON object. `textbook` is one `run_with_hooks` with a hook on `hook_z` for each head and
item; of those runs, all alike in cost, every k-th is timed and the rest is worked out (`sampled`).
`textbook_batched` gives the hooked model the 8 prompts at once. Rates are matrix-multiply
operations per second as torch counts them; `gemm` is the rate of bare multiplications of the very
sizes that occur, each at its mean over repeats in a row, weighted by how much of the work it does.
Rounds of all alternate, and the fastest of each counts, so that other load on the machine weighs on
all alike.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from rolecall.analyses.downstream import ROWS, Engine, open_engine
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.item_batches import batches
from rolecall.analyses.lean import lean
from rolecall.analyses.metrics import score
from rolecall.analyses.models import Model, load_model
from rolecall.probes.base import Item, Task

PROMPTS, LENGTH = 8, 32
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def task(model: Model) -> Task:
    """Random prompts with a random answer and foil."""
    draw = random.Random(0)
    items = []
    for number in range(PROMPTS):
        first = () if model.aligner.bos is None else (model.aligner.bos,)
        ids = (*first, *draw.sample(model.aligner.ordinary, LENGTH - len(first)))
        answer, foil = draw.sample(model.aligner.ordinary, 2)
        items.append(Item(ids, f"t{number}", position=LENGTH - 1, answer=answer, foil=foil))
    return Task("bench", "logit_difference", tuple(items))


def ours(engine: Engine, work: Task) -> torch.Tensor:
    """[layer, head, item] totals, the way `ablate` works them out, a clean run included."""
    model = engine.model
    (batch,) = batches(work, model, tokens=PROMPTS * LENGTH)
    hidden, found = engine.start(batch.token_ids), []
    at_once = max(1, engine.rows // batch.token_ids.numel())
    for layer in range(model.n_layers):
        step, hidden = engine.clean(layer, hidden)
        assert step is not None
        for start in range(0, model.n_heads, at_once):
            heads = [(h,) for h in range(start, min(start + at_once, model.n_heads))]
            stream = engine.after(
                layer, step, -step.z, heads, reads=batch.reads, token_ids=batch.token_ids
            )
            found.append(score(engine.tail, engine.tail.normed(stream), batch.reads).metric)
    last = hidden[batch.reads.row, batch.reads.pos]
    clean = score(engine.tail, engine.tail.normed(last)[None], batch.reads).metric
    return (clean - torch.cat(found)).reshape(model.n_layers, model.n_heads, PROMPTS)


def hooked_difference(model: Model, items: list[Item], layer: int, head: int) -> torch.Tensor:
    """The textbook: one forward of the hooked model with one head's z set to zero."""

    def zero(z: torch.Tensor, hook: Any) -> torch.Tensor:
        z[..., head, :] = 0
        return z

    ids = torch.tensor([item.token_ids for item in items])
    name = f"blocks.{layer}.attn.hook_z"
    logits = model.bridge.run_with_hooks(ids, fwd_hooks=[(name, zero)])
    each = range(len(items))
    answer, foil = ([getattr(i, which) for i in items] for which in ("answer", "foil"))
    return logits[each, -1, answer] - logits[each, -1, foil]


class Sizes(TorchDispatchMode):
    """Counts matrix multiplications by their sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[int, int, int]] = Counter()

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None):
        name = function.overloadpacket.__name__
        if name in ("mm", "addmm"):
            a, b = args[-2:]
            self.seen[a.shape[0], a.shape[1], b.shape[1]] += 1
        return function(*args, **(kwargs or {}))


def gemm_seconds(sizes: Counter[tuple[int, int, int]], clock: Callable[[], float]) -> float:
    """What these multiplications take by themselves, on fresh operands of the same layout."""
    total = 0.0
    for (n, k, m), times in sizes.items():
        a, b = torch.randn(n, k), torch.randn(m, k).T
        repeats = max(3, min(times, int(2e10 / (2 * n * k * m))))
        torch.mm(a, b)
        start = clock()
        for _ in range(repeats):
            torch.mm(a, b)
        total += (clock() - start) / repeats * times
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--sample", type=int, default=45, help="textbook runs timed a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = CLOCKS[options.clock]
    model = load_model(options.model)
    work = task(model)
    runs = [(la, h) for la in range(model.n_layers) for h in range(model.n_heads)]
    chosen = runs[:: max(1, len(runs) // options.sample)]
    few = chosen[:: max(1, len(chosen) // 9)]
    batched: list[Any] = []
    took: dict[str, list[float]] = {"ours": [], "textbook": [], "textbook_batched": [], "gemm": []}

    def timed(name: str, scale: float, work: Callable[[], Any]) -> Any:
        start = clock()
        made = work()
        took[name].append((clock() - start) * scale)
        return made

    with evaluating(model.plain, model.bridge.original_model):
        engine = open_engine(model, rows=options.rows)
        with lean(engine.parts), FlopCounterMode(display=False) as counter, Sizes() as sizes:
            totals = ours(engine, work)
        for number in range(options.rounds):
            with lean(engine.parts):
                timed("ours", 1.0, lambda: ours(engine, work))
            took["gemm"].append(gemm_seconds(sizes.seen, clock))
            items = [work.items[(i + number) % PROMPTS] for i in range(len(chosen))]
            scale = len(runs) / len(chosen)
            timed(
                "textbook",
                scale * PROMPTS,
                lambda items=items: [
                    hooked_difference(model, [item], *run)
                    for item, run in zip(items, chosen, strict=True)
                ],
            )
            batched = timed(
                "textbook_batched",
                len(runs) / len(few),
                lambda: [hooked_difference(model, list(work.items), *r) for r in few],
            )
        clean = model.bridge(torch.tensor([item.token_ids for item in work.items]))
        answer, foil = ([getattr(i, w) for i in work.items] for w in ("answer", "foil"))
        each = range(PROMPTS)
        base = clean[each, -1, answer] - clean[each, -1, foil]
        error = max(
            float((totals[run] - (base - there)).abs().max())
            for run, there in zip(few, batched, strict=True)
        )
    best = {name: min(seconds) for name, seconds in took.items()}
    multiplied = sum(2 * n * k * m * times for (n, k, m), times in sizes.seen.items())
    print(
        json.dumps(
            {
                "model": model.name,
                "threads": options.threads,
                "clock": options.clock,
                "rows_at_once": options.rows,
                "route": engine.route,
                "heads": len(runs),
                "prompts": PROMPTS,
                "tokens": LENGTH,
                "seconds": {name: round(value, 2) for name, value in best.items()},
                "all_rounds": {n: [round(v, 2) for v in values] for n, values in took.items()},
                "sampled": f"{len(chosen)} of {len(runs) * PROMPTS} textbook runs a round",
                "ratio": round(best["textbook"] / best["ours"], 2),
                "ratio_batched": round(best["textbook_batched"] / best["ours"], 2),
                "gflop": round(counter.get_total_flops() / 1e9, 1),
                "gflop_per_s": round(multiplied / best["ours"] / 1e9, 1),
                "gemm_gflop_per_s": round(multiplied / best["gemm"] / 1e9, 1),
                "gemm_share": round(best["gemm"] / best["ours"], 3),
                "largest_difference": error,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
