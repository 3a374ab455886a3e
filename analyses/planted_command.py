"""What `rolecall check --planted` does: tables of precision, recall and tiers, in a folder."""

from __future__ import annotations

from pathlib import Path

from rolecall.analyses.precision import Report, noise_curve, planted_report


def write_planted(
    folder: Path,
    *,
    n_planted: int = 30,
    n_random: int = 20,
    seed: int = 0,
    curve: bool = False,
) -> Report:
    """The report of `planted_report`, which is also written.

    planted.csv has a row a role, planted_tiers.csv one for each right tier and one for random
    models, planted_wrong.csv one for each head and role with a wrong tier.

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
    tables = {"": report.roles, "_tiers": report.truths, "_wrong": report.wrong}
    if curve:
        tables["_noise"] = noise_curve(seed=seed)
    for name, table in tables.items():
        path = folder / f"planted{name}.csv"
        table.to_csv(path, index=False, lineterminator="\n", float_format="%.4g")
    return report
