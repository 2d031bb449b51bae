"""Populations of rankings for benchmarks: two real ones and three simulated kinds, repeatable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from psephos import Ballot, Profile, read_preflib

__all__ = ["REAL", "SIMULATED", "mallows", "plackett_luce", "real", "simulated"]

_ROOT = Path(__file__).parent.parent
_FILES = {"sushi": _ROOT / "tests" / "data" / "sushi.soc", "burlington": _ROOT / "examples" / "burlington2006.toi"}
REAL = tuple(_FILES)
SIMULATED = ("mallows", "plackett-luce", "camps")

_DISTINCT = 10_000  # rankings drawn; a larger population repeats them
_CAMPS = (0.5, 0.3, 0.2)
_DISPERSION = 0.8


def real(name: str) -> Profile:
    """The ballots of a real file."""
    return read_preflib(_FILES[name])


def mallows(n: int, m: int, dispersion: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """n rankings of m items, best first, with ``P ~ dispersion^(Kendall distance to 0, 1, ..., m-1)``.

    By repeated insertion: item i goes j places above the bottom of those before it with weight dispersion^j.
    """
    orders = np.zeros((n, 0), dtype=np.intp)
    for i in range(m):
        weights = dispersion ** np.arange(i + 1)
        place = i - rng.choice(i + 1, size=n, p=weights / weights.sum())
        columns = np.arange(i + 1)[None, :]
        wider = np.take_along_axis(
            np.concatenate([orders, np.full((n, 1), i)], axis=1),
            np.where(columns <= place[:, None], columns, columns - 1),
            1,
        )
        wider[np.arange(n), place] = i
        orders = wider
    return orders


def plackett_luce(n: int, utilities: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
    """n rankings, best first: items are drawn one after another with weights exp(utility)."""
    return np.argsort(-(utilities + rng.gumbel(size=(n, len(utilities)))), axis=1)


def simulated(kind: str, m: int, people: int, *, seed: int) -> Profile:
    """``people`` rankings of m items.

    ``mallows``: dispersion .8 about one ranking. ``plackett-luce``: normal utilities of standard deviation 1.
    ``camps``: three Mallows populations of dispersion .8 about random rankings, with shares .5, .3 and .2.
    """
    rng = np.random.default_rng([seed, m, people, SIMULATED.index(kind)])
    n = min(people, _DISTINCT)
    if kind == "mallows":
        orders = mallows(n, m, _DISPERSION, rng)
    elif kind == "plackett-luce":
        orders = plackett_luce(n, rng.normal(size=m), rng)
    else:
        sizes = rng.multinomial(n, _CAMPS)
        orders = np.concatenate([rng.permutation(m)[mallows(k, m, _DISPERSION, rng)] for k in sizes])
    counts: dict[Ballot, int] = {}
    for order in orders.tolist():
        ballot = Ballot.strict(order)
        counts[ballot] = counts.get(ballot, 0) + people // n
    return Profile.from_ballots([f"item {u}" for u in range(m)], counts)
