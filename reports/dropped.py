"""What was left out of a run, and why: items that could not be used, roles without any."""

from __future__ import annotations

from typing import Any

from rolecall.reports.run import Run


def dropped_items(run: Run) -> tuple[dict[str, Any], ...]:
    """One entry a role or task with anything dropped: what, used, and reasons with their counts."""
    found = []
    for kind in ("roles", "tasks"):
        for name, facts in sorted(run.manifest.get(kind, {}).items()):
            if facts.get("dropped"):
                reasons = sorted(facts["dropped"].items(), key=lambda item: (-item[1], item[0]))
                entry = {"what": name, "kind": kind[:-1], "used": facts.get("used", 0)}
                found.append({**entry, "reasons": reasons})
    return tuple(found)
