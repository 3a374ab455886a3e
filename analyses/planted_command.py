"""What `rolecall check --planted` does: the tables of precision and recall, written to a folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from rolecall.analyses.precision import noise_curve, planted_report

RATES = ("recall", "recall_low", "precision", "precision_low")


def write_planted(
    folder: Path,
    *,
    n_planted: int = 30,
    n_random: int = 20,
    seed: int = 0,
    curve: bool = False,
) -> pd.DataFrame:
    """The report of `planted_report`, which is also written: planted.csv and planted.md.

    Args:
        folder: Where to; made if it is not there.
        n_planted: See `planted_report`.
        n_random: See `planted_report`.
        seed: See `planted_report`.
        curve: Whether recall at higher noise is measured as well (planted_noise.csv); that takes
            several times as long.

    Raises:
        ValueError: No planted or no random model is asked for.
    """
    if n_planted < 1 or n_random < 1:
        raise ValueError(
            f"precision needs at least one planted and one random model; got {n_planted} and "
            f"{n_random}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    report = planted_report(n_planted, n_random, seed)
    report.to_csv(folder / "planted.csv", index=False, lineterminator="\n", float_format="%.4g")
    (folder / "planted.md").write_text(markdown(report), encoding="utf-8")
    if curve:
        table = noise_curve(seed=seed)
        path = folder / "planted_noise.csv"
        table.to_csv(path, index=False, lineterminator="\n", float_format="%.4g")
    return report


def markdown(report: pd.DataFrame) -> str:
    """The report as a Markdown table; a dash where there is nothing to count.

    Example:
        >>> print(markdown(pd.DataFrame({"role": ["induction"], "recall": [1.0]})), end="")
        | role | recall |
        |:---|---:|
        | induction | 1.00 |
    """
    columns = list(report.columns)
    lines = ["| " + " | ".join(columns) + " |", "|:---|" + "---:|" * (len(columns) - 1)]
    for row in report.itertuples(index=False):
        lines.append("| " + " | ".join(map(shown, row, columns)) + " |")
    return "\n".join(lines) + "\n"


def shown(value: object, column: str) -> str:
    """A cell: rates with two decimals, counts whole, nothing as a dash."""
    if isinstance(value, str):
        return value
    if pd.isna(value):  # pyright: ignore[reportArgumentType, reportCallIssue]
        return "–"
    return f"{value:.2f}" if column in RATES else f"{value:.0f}"
