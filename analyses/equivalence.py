"""Whether an effect is shown to be nothing: two one-sided tests against a negligible band.

That an effect is not significant says nothing by itself (Schuirmann 1987; methods §4.14). The test
works from an estimate and its 95 % interval, so that it can be redone from the effects table.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

Numbers = Float[np.ndarray, "..."]

# Half of a 95 % interval, in standard errors.
HALF_WIDTH = float(norm.ppf(0.975))


def equivalence_p(estimate: Numbers, low: Numbers, high: Numbers, band: Numbers) -> Numbers:
    """The p-value of "the effect is at least as large as the band, one way or the other".

    Small where the effect is shown to lie inside (−band, band). An interval of no width is taken
    for exact: 0 inside the band, 1 outside. NaN where an input is.
    """
    error = (np.asarray(high, dtype=float) - low) / (2 * HALF_WIDTH)
    room = np.asarray(band, dtype=float) - np.abs(estimate)
    exact = error <= 0
    z = np.divide(room, error, out=np.zeros_like(room), where=~exact)
    p = np.where(exact, np.where(room > 0, 0.0, 1.0), norm.sf(z))
    return np.where(np.isnan(error) | np.isnan(room), np.nan, p)
