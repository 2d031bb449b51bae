"""Public weights of blocks: their law, and the concentration that keeps the spread of an ordinary bootstrap.

With n records in S blocks and u ~ Dirichlet(gamma 1_S), record i of block s has the weight ``u_s / |I_s|``, so that one
person moves a weighted mean by at most ``1 / n_S`` of its range, n_S = floor(n / S). At ``gamma* = (S (n + 1) - 2 n) /
(S (n - 1))`` the variance of a linear statistic, in the mean over partitions into equal blocks, is that of weights
``Dirichlet(1_n)``. Source: "Private Generative Bootstrap via Blocking", sections 2.2.2 and 4, equation (8).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_integer, check_real
from psephos.errors import ParameterError

__all__ = ["dirichlet_weights", "gamma_star"]


def gamma_star(records: int, blocks: int) -> float:
    """The concentration at which blocked posteriors have the dispersion of unblocked ones, equation (8).

    It is at least ``1 - 2/S`` and at most 1, does not depend on the data, and so is public. At two blocks or fewer
    there is none. ``S gamma* >= 3``, which Theorem 4.1 asks for, holds from S = 5 on.

    Parameters
    ----------
    records
        n >= blocks. With a remainder that is dropped, the number that is kept.
    blocks
        S >= 3.

    >>> round(gamma_star(10_000, 20), 4), gamma_star(20, 20)
    (0.9002, 1.0)
    """
    check_integer(blocks, "blocks", low=3)
    check_integer(records, "records", low=blocks)
    return (blocks * (records + 1) - 2 * records) / (blocks * (records - 1))


def dirichlet_weights(
    blocks: int,
    gamma: float,
    size: int,
    rng: np.random.Generator,
    *,
    alpha: float = 0.0,
    pseudo_blocks: int = 0,
) -> NDArray[np.float64]:
    """Draws of ``(u, u~) ~ Dirichlet(gamma 1_S, (alpha / S~) 1_S~)``, (size, S + S~), rows that sum to 1.

    Parameters
    ----------
    blocks
        S >= 1.
    gamma
        Concentration of a block, > 0.
    size
        How many draws, >= 0.
    alpha, pseudo_blocks
        Mass and number of pseudo blocks, of data that are nobody's (section S2.3.2): both 0, or both > 0.

    >>> dirichlet_weights(3, 0.9, 2, np.random.default_rng(1)).sum(axis=1).round(12).tolist()
    [1.0, 1.0]
    """
    check_integer(blocks, "blocks", low=1)
    check_real(gamma, "gamma", low=1e-6, high=1e9)
    check_integer(size, "size", low=0)
    check_real(alpha, "alpha", low=0, high=1e9)
    check_integer(pseudo_blocks, "pseudo_blocks", low=0)
    if (alpha > 0) != (pseudo_blocks > 0):
        raise ParameterError(f"alpha and pseudo_blocks must both be 0 or both be > 0, got {alpha!r}, {pseudo_blocks!r}")
    mass = np.concatenate([np.full(blocks, float(gamma)), np.full(pseudo_blocks, alpha / max(pseudo_blocks, 1))])
    return rng.dirichlet(mass, size)
