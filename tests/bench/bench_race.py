"""What racing saves, and how often it decides otherwise than the full sweep.

    python tests/bench/bench_race.py MODEL [--layers 15-29] [-n 64] [--period 12]

Task: loss on the second copy of a block of random tokens. Every head of those layers is run on
every item once; races are then run over these numbers, with a hundred orders of the items. A
decision is wrong where the full sweep's mean lies on the other side of the band. Prints one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

import numpy as np

from rolecall.analyses.downstream import open_engine
from rolecall.analyses.heads import all_heads
from rolecall.analyses.hooks import evaluating
from rolecall.analyses.item_store import ItemStore, read_items
from rolecall.analyses.lean import lean
from rolecall.analyses.models import Model, load_model
from rolecall.analyses.racing import Race, race_through
from rolecall.analyses.sweep import Order, sweep
from rolecall.probes.base import Item, Task

ORDERS = 100


def task(model: Model, n: int, period: int) -> Task:
    draw = random.Random(0)
    items = []
    for number in range(n):
        block = draw.sample(model.aligner.ordinary, period)
        first = () if model.aligner.bos is None else (model.aligner.bos,)
        ids = (*first, *block, *block)
        marked = tuple(range(len(ids) - period + 1, len(ids)))
        items.append(Item(ids, f"t{number}", positions=marked))
    return Task("second_copy", "loss", tuple(items))


def effects(model: Model, work: Task, layers: range) -> tuple[np.ndarray, list[str]]:
    """[item, head] zero-ablation effects of the full sweep."""
    units = tuple(unit for unit in all_heads(model) if unit.layer in layers)
    with tempfile.TemporaryDirectory() as folder, evaluating(model.plain):
        engine = open_engine(model)
        store = ItemStore(Path(folder), work.name, "zero", "bench")
        order = Order(work, units, {"zero": store}, kl=False, direct=False)
        with lean(engine.parts):
            sweep(engine, order, lambda _pairs: None)
        store.finish(order.layers(), {})
        rows, _ = read_items(store.path)
    wide = rows.pivot(index="item", columns="heads", values="total")
    names = [unit.name for unit in units]
    return wide[names].to_numpy(float), names


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--layers")
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("--period", type=int, default=12)
    parser.add_argument("--keep", type=Path, help="an .npz file for the full sweep's numbers")
    options = parser.parse_args()
    model = load_model(options.model)
    low, _, high = (options.layers or f"0-{model.n_layers - 1}").partition("-")
    work = task(model, options.n, options.period)
    if options.keep and options.keep.is_file():
        kept = np.load(options.keep)
        values, names = kept["values"], list(kept["names"])
    else:
        values, names = effects(model, work, range(int(low), int(high) + 1))
        if options.keep:
            np.savez(options.keep, values=values, names=names)
    mean = values.mean(axis=0)
    rows = []
    for band in (0.05, 0.1, 0.2):
        truth = np.where(mean > band, "helps", np.where(mean < -band, "hurts", "negligible"))
        saved, wrong, undecided, races_wrong = [], 0, 0, 0
        for seed in range(ORDERS):
            found = race_through(
                lambda i, on: values[i][:, on], len(values), len(names), Race(band=band, seed=seed)
            )
            said = found["decision"].to_numpy()
            errors = int(((said != truth) & (said != "undecided")).sum())
            wrong += errors
            races_wrong += errors > 0
            undecided += int((said == "undecided").sum())
            saved.append(values.size / found["n_items"].sum())
        rows.append(
            {
                "band": band,
                "heads_that_matter": int((truth != "negligible").sum()),
                "times_fewer_head_items": round(float(np.mean(saved)), 2),
                "wrong_decisions": wrong,
                "of_decisions": ORDERS * len(names),
                "races_with_an_error": races_wrong,
                "undecided_share": round(undecided / (ORDERS * len(names)), 4),
            }
        )
    said = {"model": model.name, "heads": len(names), "items": len(values), "alpha": Race().alpha}
    print(json.dumps({**said, "orders": ORDERS, "bands": rows}, indent=2))


if __name__ == "__main__":
    main()
