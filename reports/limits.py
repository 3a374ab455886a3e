"""What a report says of the limits of its method, for what the run holds."""

from __future__ import annotations

from rolecall.reports.run import Run


def limits(run: Run) -> tuple[str, ...]:
    """The sentences that hold for the tables of this run."""
    scored, tested, judged = (name in run.tables for name in ("scores", "effects", "heads"))
    said = []
    if scored:
        said += [
            f"{'Labels' if judged else 'Scores'} describe behaviour on these probes: crafted "
            "sentences and token sequences, not all text. A head may do other things elsewhere.",
            "Attention shows where a head looks, not what it does with it; only effects say "
            "whether the model depends on it, and only on these tasks.",
        ]
    if judged:
        said.append(
            "“No clean label” is the usual case and no failure: it means that no role passed "
            "every rule, and no label is forced on a head."
        )
    if tested:
        reasons = " The reasons say which." if judged else ""
        damage = (
            " A head's card on the page has generic damage beside each effect." if scored else ""
        )
        said += [
            "An effect that was not detected is not an effect of zero: others may make good the "
            f"loss, or the items may be too few.{reasons}",
            "Replacing by zero takes a head off everything it usually writes; effects quoted here "
            f"use the mean, where there is one.{damage}",
            "Direct effects hold the final norm's scale fixed, which is an approximation.",
        ]
    said.append(
        "Intervals come from templates, then examples within them; with few templates they are "
        "wide, and that is right."
    )
    return tuple(said)
