"""How sure scores are: the sandwich covariance, and intervals from it.

With ``H = L(n_uv f(theta_u - theta_v))`` the Hessian of the loss at the scores (L(w) is the Laplacian of weights w) and
J the covariance of the wins, the scores have covariance about

    H^+ J H^+ + s s^T,      s = 2 lambda H^+ theta.

Regularisation pulls scores together by about s, which is counted as one more error; lambda itself is not in H.
Curvatures below 1e-6 of those at even odds (differences of 15 log-odds) count as that much, so that items that won, or
lost, all they could have errors that are huge and finite. J is the sum of the known covariance of noise in the wins and
of a sampling part:

* independent: every answer is one of its own, ``J = L(s_uv F (1 - F))`` with s_uv the sum of squared weights of the
  answers, n_uv where all weights are 1. Too narrow where one person gives many answers.
* clustered: people are independent and their answers are not, ``J = sum_p r_p r_p^T + J_independent / people`` with r_p
  the wins of person p less what the scores expect of the pairs that p compared (Liang and Zeger 1986).

Only differences within a component of the table of answers are estimated; a score is taken relative to the mean of
its component. All this is the first order of many answers: intervals of items that lie far apart for their number of
answers (4 log-odds with some hundreds) cover less than their level. Proofs: docs/proofs/local.md, section 7.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.special import ndtri, stdtrit

from psephos._check import check_real, percent_hint
from psephos.errors import ParameterError
from psephos.scores.answers import LEAST_DENSITY, as_answers, laplacian, real_array
from psephos.scores.links import LOGISTIC, Link, as_link

__all__ = [
    "clustered_sampling",
    "difference_errors",
    "independent_sampling",
    "normal_intervals",
    "score_covariance",
    "score_errors",
    "score_inverse",
    "student_intervals",
    "student_quantile",
]

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]


def independent_sampling(scores: npt.ArrayLike, answers: Any, *, link: Link | str = LOGISTIC) -> Floats:
    """Covariance of the wins where all answers are independent.

    Parameters
    ----------
    scores
        theta, shape (m,).
    answers
        shape (m, m), symmetric: n_uv, or the sum of squared weights of the answers. A tie has less variance than a
        win or a loss, so that half wins make this an upper bound.
    link
        the link that was fitted.

    Returns
    -------
    array of shape (m, m)
        in answers squared; its rows sum to 0.

    Raises
    ------
    ParameterError
        if a table is out of range, or shapes differ.

    >>> independent_sampling([0, 0], [[0, 10], [10, 0]]).tolist()
    [[2.5, -2.5], [-2.5, 2.5]]
    """
    theta, table = _checked(scores, answers)
    x = theta[:, None] - theta[None, :]
    law = as_link(link)
    return laplacian(table * (law.density(x) if law is LOGISTIC else law.cdf(x) * law.cdf(-x)))


def clustered_sampling(residuals: Any, *, independent: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> Floats:
    """Covariance of the wins where people are independent and the answers of one person are not.

    Parameters
    ----------
    residuals
        shape (people, m), an array or a scipy.sparse array: the wins of each person less the wins that the scores
        expect of the pairs that the person compared. Noise in a person's answers is part of the residual.
    independent
        shape (m, m): :func:`independent_sampling` of all answers (plus the noise, where there is any).
    counts
        shape (people,), > 0: how many people each row stands for; 1 each if absent.

    Returns
    -------
    array of shape (m, m)
        ``sum_p r_p r_p^T + independent / people``, in answers squared.

    Raises
    ------
    ParameterError
        if there are no people, or shapes differ.

    >>> clustered_sampling([[0.5, -0.5], [-0.5, 0.5]], independent=[[0.5, -0.5], [-0.5, 0.5]]).tolist()
    [[0.75, -0.75], [-0.75, 0.75]]
    """
    model = real_array(independent, "independent", ndim=2)
    is_sparse: bool = sparse.issparse(residuals)
    rows: Any = sparse.csr_array(residuals) if is_sparse else real_array(residuals, "residuals", ndim=2)
    people = np.ones(rows.shape[0]) if counts is None else real_array(counts, "counts", ndim=1)
    if model.shape != (rows.shape[1], rows.shape[1]) or people.shape != (rows.shape[0],):
        raise ParameterError(
            f"residuals {rows.shape}, independent {model.shape} and counts {people.shape} do not fit together"
        )
    if not len(people) or not (people > 0).all():
        raise ParameterError("counts must be > 0, for at least one person")
    moment: Any = rows.T @ (rows * people[:, None])
    total: Floats = (moment.toarray() if is_sparse else moment) + model / people.sum()
    return total


def score_covariance(
    scores: npt.ArrayLike,
    answers: Any,
    *,
    wins_covariance: npt.ArrayLike,
    regularisation: float,
    link: Link | str = LOGISTIC,
) -> Floats:
    """The sandwich covariance ``H^+ J H^+`` of fitted scores, and what regularisation pulls them together by.

    Parameters
    ----------
    scores
        theta, shape (m,), as :func:`psephos.scores.solve_scores` returns them.
    answers
        n, shape (m, m), symmetric, as given to the solver. The result is dense.
    wins_covariance
        J, shape (m, m), in answers squared: sampling plus noise. What it says of the sum over a component is
        ignored, as the solver ignores it in the wins.
    regularisation, link
        as given to the solver.

    Returns
    -------
    array of shape (m, m)
        in squared units of the scores; rows sum to 0 on each component, entries between components mean nothing.
        Without regularisation ``H^+ J H^+`` alone.

    Raises
    ------
    ParameterError
        if shapes or ranges are wrong, or H is singular on some component.

    >>> n, J = [[0, 10], [10, 0]], independent_sampling([0, 0], [[0, 10], [10, 0]])
    >>> score_covariance([0, 0], n, wins_covariance=J, regularisation=0).round(6).tolist()
    [[0.1, -0.1], [-0.1, 0.1]]
    """
    theta, table = _checked(scores, answers)
    noise = real_array(wins_covariance, "wins_covariance", ndim=2)
    if noise.shape != table.shape:
        raise ParameterError(f"wins_covariance must have shape {table.shape}, got {noise.shape}")
    ridge = 2.0 * check_real(regularisation, "regularisation", low=0.0, high=1e100)
    labels = as_answers(answers).labels
    factor, _, raised = _factored(theta, table, labels, as_link(link), floor=ridge > 0)
    missing = table * raised
    if missing.any():
        noise = noise + laplacian(missing)  # answers so uneven have next to no variance of their own either
    half = linalg.cho_solve((factor, True), _centred(_centred(noise, labels).T, labels))
    covariance = _centred(_centred(linalg.cho_solve((factor, True), half.T), labels).T, labels)
    if ridge > 0:
        shift = _centred(linalg.cho_solve((factor, True), ridge * theta[:, None]), labels)
        covariance = covariance + shift @ shift.T
    return (covariance + covariance.T) / 2.0


def score_inverse(
    scores: npt.ArrayLike, answers: Any, *, regularisation: float, link: Link | str = LOGISTIC
) -> tuple[Floats, Floats]:
    """``H^+`` of fitted scores within components, and the densities f in it, both of shape (m, m).

    Parameters and errors as for :func:`score_covariance`.
    """
    theta, table = _checked(scores, answers)
    labels = as_answers(answers).labels
    factor, density, _ = _factored(theta, table, labels, as_link(link), floor=regularisation > 0)
    inverse = linalg.cho_solve((factor, True), _centred(np.eye(len(theta)), labels))
    inverse = _centred(inverse, labels)
    return (inverse + inverse.T) / 2.0, density


def _factored(
    theta: Floats, table: Floats, labels: Labels, link: Link, *, floor: bool
) -> tuple[Floats, Floats, Floats]:
    """A lower factor of H, its densities, and by how much a floor raised them."""
    plain = link.density(theta[:, None] - theta[None, :])
    density = np.maximum(plain, LEAST_DENSITY * float(link.density(np.zeros(1))[0])) if floor else plain
    hessian = laplacian(table * density)
    size = float(np.trace(hessian)) / len(theta) or 1.0
    mean = 1.0 / np.bincount(labels)[labels]
    # Constants on a component are taken out on both sides, so what stands there in H does not matter: enough to be
    # positive, too little to drown small curvatures elsewhere.
    hessian += np.where(labels[:, None] == labels[None, :], 1e-8 * size * mean, 0.0)
    factor = _cholesky(hessian)
    if factor is None and floor:  # a curvature below what doubles resolve beside the others
        factor = _cholesky(hessian + 1e-13 * size * np.eye(len(theta)))
    if factor is None:
        raise ParameterError("regularisation must be > 0 here: some difference of scores carries no information")
    return factor, density, density - plain


def score_errors(covariance: Floats, component_labels: Labels) -> Floats:
    """Standard errors of scores about the mean of their component.

    Of a ``covariance``, shape (m, m), and ``component_labels``, shape (m,), which are taken as they are: a
    :class:`psephos.errors.ParameterError` comes from what made them.

    Returns
    -------
    array of shape (m,)
        infinite for an item that no other is compared with: nothing is known about it.

    >>> covariance = np.array([[0.04, -0.04, 0.0], [-0.04, 0.04, 0.0], [0.0, 0.0, 0.0]])
    >>> score_errors(covariance, np.array([0, 0, 1])).tolist()
    [0.2, 0.2, inf]
    """
    alone = np.bincount(component_labels)[component_labels] == 1
    if len(component_labels) == 1:
        alone[:] = False  # the only item: its score is 0 by definition
    return np.where(alone, np.inf, np.sqrt(np.maximum(np.diagonal(covariance), 0.0)))


def difference_errors(covariance: Floats, component_labels: Labels) -> Floats:
    """Standard errors of the differences ``theta_u - theta_v``.

    Of a ``covariance``, shape (m, m), and ``component_labels``, shape (m,), which are taken as they are: a
    :class:`psephos.errors.ParameterError` comes from what made them.

    Returns
    -------
    array of shape (m, m)
        infinite across components.

    >>> covariance = np.array([[0.04, -0.04, 0.0], [-0.04, 0.04, 0.0], [0.0, 0.0, 0.0]])
    >>> difference_errors(covariance, np.array([0, 0, 1])).tolist()
    [[0.0, 0.4, inf], [0.4, 0.0, inf], [inf, inf, 0.0]]
    """
    variances = np.diagonal(covariance)
    squares = variances[:, None] + variances[None, :] - 2.0 * covariance
    errors = np.sqrt(np.maximum(squares, 0.0))
    return np.where(component_labels[:, None] == component_labels[None, :], errors, np.inf)


def normal_intervals(centre: npt.ArrayLike, errors: npt.ArrayLike, *, level: float = 0.95) -> Floats:
    """Intervals ``centre -+ q errors``, q the normal quantile of a two-sided level in (0, 1).

    Returns
    -------
    array of shape (..., 2)
        lower and upper ends, whole lines where the error is infinite.

    Raises
    ------
    ParameterError
        for another level.

    >>> normal_intervals([1.0], [0.5], level=0.95).round(6).tolist()
    [[0.020018, 1.979982]]
    """
    chance = check_real(level, "level", low=-1e300, high=1e300)
    if not 0.0 < chance < 1.0:
        raise ParameterError(f"level must be > 0 and < 1, got {level!r}{percent_hint(level)}")
    middle = np.asarray(centre, dtype=np.float64)
    width = float(ndtri(0.5 + chance / 2.0)) * np.asarray(errors, dtype=np.float64)
    return np.stack([middle - width, middle + width], axis=-1)


def _centred(columns: Floats, labels: Labels) -> Floats:
    """Columns, shape (m, k), less their means over each component."""
    member: Any = sparse.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    means: Floats = (member @ columns) / np.bincount(labels)[:, None]
    return columns - means[labels]


def student_quantile(tail: npt.ArrayLike, freedom: npt.ArrayLike) -> Floats:
    """What a Student t with these degrees of freedom exceeds with probability ``tail`` in (0, .5].

    Normal at infinity, and infinite at 0.

    >>> student_quantile(0.025, [21.0, np.inf]).round(4).tolist()
    [2.0796, 1.96]
    """
    degrees, chance = np.asarray(freedom, dtype=np.float64), np.asarray(tail, dtype=np.float64)
    finite = np.isfinite(degrees) & (degrees > 0)
    quantile: Floats = np.where(finite, -stdtrit(np.where(finite, degrees, 1.0), chance), -ndtri(chance))
    return np.where(degrees > 0, quantile, np.inf)


def student_intervals(
    centre: npt.ArrayLike, errors: npt.ArrayLike, *, freedom: npt.ArrayLike, level: float = 0.95
) -> Floats:
    """Intervals ``centre -+ t errors``, t the quantile of Student's law with that freedom; shape (..., 2).

    >>> student_intervals([1.0], [0.5], freedom=[21.0]).round(4).tolist()
    [[-0.0398, 2.0398]]
    """
    normal_intervals(0.0, 0.0, level=level)
    middle = np.asarray(centre, dtype=np.float64)
    width = student_quantile(0.5 - level / 2.0, freedom) * np.asarray(errors, dtype=np.float64)
    return np.stack([middle - width, middle + width], axis=-1)


def _cholesky(matrix: Floats) -> Floats | None:
    """The lower factor, or ``None`` where the matrix is singular to rounding."""
    try:
        factor: Floats = linalg.cholesky(matrix, lower=True)
    except linalg.LinAlgError:
        return None
    pivots = np.diagonal(factor) ** 2
    return factor if pivots.min() > len(matrix) * np.finfo(np.float64).eps * np.diagonal(matrix).max() else None


def _checked(scores: npt.ArrayLike, answers: Any) -> tuple[Floats, Floats]:
    theta = real_array(scores, "scores", ndim=1)
    table = as_answers(answers).to_dense()
    if table.shape[0] != len(theta):
        raise ParameterError(f"scores must have one entry an item ({table.shape[0]}), got {len(theta)}")
    return theta, table
