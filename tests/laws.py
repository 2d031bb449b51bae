"""Distribution tests with a stated false-alarm rate, and the laws they test against."""

import math

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6


def discrete_laplace_pmf(scale, k):
    r = math.exp(-1 / scale)
    return (1 - r) / (1 + r) * r ** np.abs(np.asarray(k, dtype=float))


def rounded_gaussian_pmf(sigma, k):
    k = np.abs(np.asarray(k, dtype=float))
    return stats.norm.sf((k - 0.5) / sigma) - stats.norm.sf((k + 0.5) / sigma)


def discrete_gaussian_pmf(sigma, k):
    support = np.arange(-int(12 * sigma) - 12, int(12 * sigma) + 13)
    total = np.exp(-(support**2) / (2 * sigma**2)).sum()
    return np.exp(-(np.asarray(k, dtype=float) ** 2) / (2 * sigma**2)) / total


def accepts(draws, pmf, scale):
    """Whether integer draws agree with a symmetric law: shape by chi-square, scale by the mean of |k|.

    Each of the two parts has half of FALSE_ALARM.
    """
    draws = np.asarray(draws, dtype=np.int64)
    n = len(draws)
    reach = int(20 * scale) + 20
    k = np.arange(-reach, reach + 1)
    p = pmf(scale, k)
    assert abs(p.sum() - 1) < 1e-7
    # Cells of expected count >= 20, from the left; the remainder joins the last cell.
    edges, expected, running = [], [], 0.0
    for value, mass in zip(k, p, strict=True):
        running += mass * n
        if running >= 20:
            edges.append(value)
            expected.append(running)
            running = 0.0
    expected[-1] += running + n * (1 - p.sum())
    cells = np.searchsorted(edges[:-1], draws)
    observed = np.bincount(cells, minlength=len(edges))
    statistic = ((observed - np.array(expected)) ** 2 / np.array(expected)).sum()
    shape = stats.chi2.sf(statistic, len(edges) - 1) > FALSE_ALARM / 2
    mean = (np.abs(k) * p).sum()
    variance = (k.astype(float) ** 2 * p).sum() - mean**2
    z = (np.abs(draws).mean() - mean) / math.sqrt(variance / n)
    return bool(shape and abs(z) < stats.norm.isf(FALSE_ALARM / 4))
