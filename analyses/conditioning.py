"""Whether a role survives the other roles of a head: its score where those point elsewhere.

A head may hold several roles, but a content role counts only on links that the head's simpler role
does not explain (methods §5, rules 4 and 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from rolecall.analyses.accounting import Baseline
from rolecall.analyses.evidence import Evidence
from rolecall.analyses.hierarchy import KIND, account, explained
from rolecall.analyses.resampling import cluster_weights, resampled_means
from rolecall.analyses.score_table import Settings, reduce_evidence

HEAD = ["layer", "head"]


def conditioned(
    judged: pd.DataFrame, evidence: Mapping[str, Evidence], settings: Settings
) -> pd.DataFrame:
    """Per (role, layer, head) with a competing role: the lower bound of what is left of its score.

    Only heads whose pattern holds for several roles have rows. 0 where the other role explains
    every link.
    """
    found: list[pd.DataFrame] = []
    for role, name, heads in _pairs(judged[judged["pattern"]]):
        if role not in evidence:
            continue
        low = lower_bound(evidence[role], name, settings)
        column = {head: n for n, head in enumerate(evidence[role].heads)}
        values = [low[column[head]] for head in heads]
        rows = pd.DataFrame(heads, columns=HEAD).assign(role=role, conditioned=values)
        found.append(rows)
    if not found:
        return judged.head(0)[["role", *HEAD, "conditioned"]]
    return pd.concat(found).groupby(["role", *HEAD], as_index=False)[["conditioned"]].min()


def _pairs(held: pd.DataFrame) -> Iterator[tuple[str, str, Sequence[tuple[int, int]]]]:
    """Role, the account it must survive, and the heads that it concerns."""
    pairs = held.merge(held, on=HEAD, suffixes=("", "_other"))
    pairs = pairs[pairs["role"] != pairs["role_other"]]
    simpler = pairs["level_other"] < pairs["level"]
    equal = (pairs["level_other"] == pairs["level"]) & (pairs["level"] >= KIND)
    pairs = pairs[simpler | equal]
    names = [
        account(role, name)
        for role, name in zip(pairs["role_other"], pairs["baseline_name_other"], strict=True)
    ]
    pairs = pairs.assign(account=pd.Series(names, index=pairs.index, dtype=object))
    for (role, name), rows in pairs.dropna(subset="account").groupby(["role", "account"]):
        unique = rows[HEAD].drop_duplicates()
        yield str(role), str(name), list(unique.itertuples(index=False, name=None))


def lower_bound(evidence: Evidence, name: str, settings: Settings) -> Float[np.ndarray, " head"]:
    """Each head's lower 95 % bound of the score on links that the account does not explain."""
    rows = evidence.rows()
    right = explained(rows, name)
    if right.all():
        return np.zeros(len(evidence.heads))
    elsewhere = Baseline(np.zeros(len(rows)), right, name)
    once = Settings(n_resamples=settings.n_resamples, n_permutations=0, seed=settings.seed)
    reduced = reduce_evidence(evidence, evidence.facts["score_kind"], elsewhere, once)
    weights = cluster_weights(
        reduced.templates, reduced.pairs, n_resamples=settings.n_resamples, seed=settings.seed
    )
    return np.nanquantile(resampled_means(reduced.off, weights), 0.025, axis=0)
