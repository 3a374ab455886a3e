"""The rules of a verdict as a table: what a pattern must show, and which evidence makes which tier.

Design §5 and methods §5. Nothing is decided anywhere else: `PATTERN` is what S, M and C ask for,
`SELECTIVE` is K, and `TIERS` is read from top to bottom, the first line that fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool

from rolecall.analyses.hierarchy import CONTENT, KIND, OFFSET, SINK

Columns = Mapping[str, np.ndarray]
Truth = Bool[np.ndarray, "..."]


@dataclass(frozen=True)
class Thresholds:
    """What a verdict asks for; every one can be set on the command line.

    Attributes:
        alpha: Family-wise error over layers × heads × roles.
        min_margin: Lower bound of the margin over the best simpler account.
        min_consistency: Share of templates with a positive margin.
        min_templates: Fewer give no interval that could be trusted.
        min_ratio: Own effect over the effect on other tasks and the damage on unrelated text.
        negligible: Effects within it count as none, if shown to be: a share of the clean logit
            difference, or nats.
        dormant: Rest on first and special tokens at which a head is asleep on a role's own links.
        min_rest: Rest on every role's links that a head needs to be called a sink; a head that
            rests only where its own trigger is missing is no sink.
        min_stability: Share of resamples in which a label stays.
        score_scale: Multiplies what each role's score must reach (`NEEDED`).
    """

    alpha: float = 0.05
    min_margin: float = 0.10
    min_consistency: float = 0.90
    min_templates: int = 4
    min_ratio: float = 2.0
    negligible: float = 0.05
    dormant: float = 0.90
    min_rest: float = 0.50
    min_stability: float = 0.80
    score_scale: float = 1.0


# What the lower bound of a score must exceed: Clark et al. 2019 call a head positional from .50;
# a sink that takes .70 leaves little else; Voita et al. 2019 find syntactic heads from .38 up.
NEEDED = {
    "first_token": 0.70,
    "positional": 0.50,
    "delimiter": 0.50,
    "coreference": 0.50,
    "rare-token": 0.50,
}
OTHERS_NEED = 0.40


def needed(role: str, family: str, thresholds: Thresholds) -> float:
    """What the lower bound of this role's score must exceed."""
    return NEEDED.get(role, NEEDED.get(family, OTHERS_NEED)) * thresholds.score_scale


@dataclass(frozen=True)
class Rule:
    """One line of the table.

    Attributes:
        name: What it is called.
        column: The number that is looked at.
        relation: How it must stand to the bound.
        bound: A field of `Thresholds`, `needed` (by role), or a number.
        levels: The levels of the hierarchy it holds for.
        if_unknown: Whether a head passes where the number is missing.
        digits: Decimals with which number and bound are said.
    """

    name: str
    column: str
    relation: Literal[">", ">=", "<"]
    bound: str | float
    levels: tuple[int, ...] = (SINK, OFFSET, KIND, CONTENT)
    if_unknown: bool = False
    digits: int = 2


SAYS = {
    "templates": "seen on {value} templates, needs {bound}",
    "score": "score at least {value}, needs {bound}",
    "chance": "p = {value} over all heads and roles, needs {bound}",
    "margin": "margin at least {value}, needs {bound}",
    "consistency": "ahead on {value} of the templates, needs {bound}",
    "elsewhere": "{value} where the simpler account points elsewhere, needs {bound}",
    "awake": "dormant: rests {value} of its attention on these links",
    "rest": "rests only {value} on some role's links",
    "survives": "only {value} where its simpler role points elsewhere, needs {bound}",
    "stable": "the label stays in {value} of resamples, needs {bound}",
    "selective": "not shown to prefer its target to the rivals",
}
"""What is said of a head that fails a rule."""

PATTERN = (
    Rule("templates", "n_templates", ">=", "min_templates", digits=0),
    Rule("score", "ci_low", ">", "needed"),
    Rule("chance", "p_max", "<", "alpha", digits=3),
    Rule("margin", "margin_low", ">=", "min_margin"),
    Rule("consistency", "consistency", ">=", "min_consistency"),
    Rule("elsewhere", "off_baseline", ">", "needed", (KIND, CONTENT)),
    Rule("awake", "sink", "<", "dormant", (OFFSET, KIND, CONTENT)),
    Rule("rest", "rest", ">=", "min_rest", (SINK,), if_unknown=True),
    Rule("survives", "conditioned", ">", "needed", if_unknown=True),
    Rule("stable", "stability", ">=", "min_stability", if_unknown=True),
)
SELECTIVE = Rule("selective", "specificity_low", ">", 0.0)


Effect = Literal["helps", "harms", "nothing", "hidden", "unclear", "unknown"]
"""What removing the head does to the role's own task.

`hidden`: the head writes a detectable effect that later layers surely undo in part (`own_task`).
"""


@dataclass(frozen=True)
class Tier:
    """One line of the table of tiers; None stands for "either way"."""

    name: str
    pattern: bool
    selective: bool | None
    effect: Effect | None
    specific: bool | None
    consistent: bool | None
    means: str


TIERS = (
    Tier("A", True, True, "helps", True, True, "pattern, and an effect on its own task first"),
    Tier("B", True, True, "helps", None, None, "pattern and effect, not specific"),
    Tier("E", True, None, "harms", None, None, "the opposite sign: it works against the role"),
    Tier("C", True, None, None, None, None, "the pattern alone: no effect detected, or tested"),
    Tier("D", False, None, "helps", None, None, "effect without the pattern: no head of this role"),
)  # fmt: skip


def holds(rule: Rule, columns: Columns, thresholds: Thresholds) -> Truth:
    """Where a rule is met; columns may be rows of a table or resample × head alike."""
    value, bound = columns[rule.column], bound_of(rule, columns, thresholds)
    known = ~np.isnan(value)
    met = {">": value > bound, ">=": value >= bound - 1e-12, "<": value < bound}[rule.relation]
    concerned = np.isin(columns["level"], rule.levels)
    return np.where(known, met, rule.if_unknown) | ~concerned


def bound_of(rule: Rule, columns: Columns, thresholds: Thresholds) -> np.ndarray | float:
    """What a rule's number is held against."""
    if rule.bound == "needed":
        return columns["needed"]
    return float(getattr(thresholds, rule.bound) if isinstance(rule.bound, str) else rule.bound)


def pattern_holds(columns: Columns, thresholds: Thresholds) -> Truth:
    """Where every rule of `PATTERN` is met."""
    met = np.asarray(True)
    for rule in PATTERN:
        met = met & holds(rule, columns, thresholds)
    return met


# What a role's weights must at least show, where they are known: an induction head copies.
MECHANISM = {"induction": ("ov_copying_rank", 0.5)}


def tier_of(facts: Mapping[str, np.ndarray]) -> np.ndarray:
    """The tier of each row, None where no line of `TIERS` fits.

    Args:
        facts: `pattern`, `selective`, `effect`, `specific` and `consistent`, one value a row.
    """
    found = np.full(len(facts["pattern"]), None, dtype=object)
    for tier in reversed(TIERS):
        fits = np.ones(len(found), dtype=bool)
        for name, values in facts.items():
            wanted = getattr(tier, name)
            fits &= True if wanted is None else values == wanted
        found[fits] = tier.name
    return found
