"""Labels of layers, heads and tokens on an axis, thinned where there are too many to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes

from rolecall.reports.visible import shortened

SCORE_KINDS = {"mass": "share of attention", "hit": "share of links hit"}


def score_label(kinds: Iterable[str]) -> str:
    """What a score of these kinds (mass, hit) is.

    >>> score_label(["mass", "hit", "hit"])
    'score (share of attention, or of links hit)'
    """
    there = [said for kind, said in SCORE_KINDS.items() if kind in set(kinds)]
    if not there:
        return "score"
    return f"score ({', or '.join([there[0], *(said[6:] for said in there[1:])])})"


def step(n: int, most: int) -> int:
    """Label each, or each second, fifth, tenth …: at most `most` of `n` are labelled."""
    steps = (k * 10**power for power in range(9) for k in (1, 2, 5))
    return next(s for s in steps if n / s <= most)


def label_heads(axes: Axes, shape: tuple[int, int]) -> None:
    """Nothing; layers down and heads across, as many labels as there is room for.

    Cells are taken to be unit squares whose centres are at whole numbers and a half.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    across = step(shape[1], int(width * 5.5))
    down = step(shape[0], int(height * 6.5))
    _label(axes.xaxis, range(0, shape[1], across))
    _label(axes.yaxis, range(0, shape[0], down))
    axes.set(xlabel="head", ylabel="layer")
    axes.tick_params(length=0)


def label_places(axes: Axes, values: Sequence[float], *, apart: float) -> None:
    """Nothing; ticks across at those of the values that are at least so far from the one before.

    Args:
        axes: Their scale and limits are set already.
        values: From low to high.
        apart: A share of the width of the axes.
    """
    frame = axes.transData + axes.transAxes.inverted()
    kept: list[float] = []
    for value in values:
        at, last = (frame.transform((v, 0))[0] for v in (value, kept[-1] if kept else value))
        if not kept or at - last >= apart:
            kept.append(value)
    axes.set_xticks(kept, labels=[f"{value:,.0f}" for value in kept])
    axes.set_xticks([], minor=True)


def label_tokens(axes: Axes, tokens: Sequence[str], *, most: int) -> None:
    """Nothing; tokens on both axes, each cut to some letters and thinned to at most `most`."""
    at = range(0, len(tokens), step(len(tokens), most))
    names = [shortened(tokens[i]) for i in at]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks([i + 0.5 for i in at], labels=names)
    axes.tick_params(axis="x", rotation=90)
    axes.tick_params(length=0)


def _label(axis, at: range) -> None:
    axis.set_ticks([i + 0.5 for i in at], labels=[str(i) for i in at])
