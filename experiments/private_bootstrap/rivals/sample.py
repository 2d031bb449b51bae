r"""Posterior draws by the published rivals of this package's methods, under one contract, for comparison.

================  ====================  ====================================  =======================================
method            settings              what it draws from                    draws
================  ====================  ====================================  =======================================
``dp-sgld``       :class:`SgldPlan`     the Gibbs posterior of the loss       correlated; as many as the plan keeps
``dp-bootstrap``  :class:`ErmPlan`      bootstrap estimates; of a mean,       as wanted for a mean; else the plan's
                                        deconvolved, else with noise          few, with noise
``noisy-gibbs``   :class:`GibbsPlan`    a normal (or exponential) model       correlated, as many as wanted
================  ====================  ====================================  =======================================

Each is (epsilon, delta)-differentially private for each record under replace-one adjacency, by noise that is proved for
it; for the noise scales of the literature see the functions of each rival's own file. No ledger takes them: draws by
the methods to take are those of :func:`psephos.private_posterior`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from psephos._check import Exact, check_choice, check_integer, check_real
from psephos.bootstrap.draws import PosteriorDraws
from psephos.bootstrap.loss_protocol import finite_numbers
from psephos.bootstrap.losses import HuberLoss, Loss, MeanLoss, Records
from psephos.bootstrap.train import check_trainable, count_records, promise
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource, SystemBits
from psephos.privacy.guarantee import Guarantee
from psephos.privacy.release import Release

if TYPE_CHECKING:
    from rivals.dp_bootstrap import ErmPlan
    from rivals.dp_sgld import SgldPlan

__all__ = ["RIVALS", "GibbsPlan", "Rival", "sample_rival"]

Rival = Literal["dp-sgld", "dp-bootstrap", "noisy-gibbs"]
RIVALS: tuple[Rival, ...] = ("dp-sgld", "dp-bootstrap", "noisy-gibbs")


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class GibbsPlan:
    """Settings of NoisyGibbs.

    Parameters
    ----------
    response_bound
        Regressions: responses are cut to [-B, B], B > 0 and public. A mean has its ``data_bounds`` instead.
    thin
        Every which step of the chain is kept, >= 1.
    """

    response_bound: float | None = None
    thin: int = 10

    def __post_init__(self) -> None:
        if self.response_bound is not None:
            check_real(self.response_bound, "response_bound", low=1e-100, high=1e100)
        check_integer(self.thin, "thin", low=1)


def sample_rival(
    records: Records,
    loss: Loss,
    *,
    epsilon: Exact,
    delta: Exact,
    method: Rival,
    settings: SgldPlan | ErmPlan | GibbsPlan | None = None,
    draws: int = 2000,
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Release[PosteriorDraws]:
    """Private draws from a posterior of a loss's minimiser, by a rival method.

    Parameters
    ----------
    records
        Arrays of n rows, as ``loss`` takes them; NaN counts as 0.
    loss
        Any for ``dp-sgld``; one that is known to be convex for ``dp-bootstrap``; for ``noisy-gibbs`` a
        :class:`MeanLoss`, whose family is then the model, or a :class:`HuberLoss`, whose covariates lie in [-1, 1] and
        whose scale coordinate becomes ``residual_variance``.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    method
        See the module.
    settings
        Of the method; its defaults if absent: :class:`SgldPlan`, :class:`ErmPlan` (for a mean with 1,000 resamples, and
        no ridge) or :class:`GibbsPlan`, which a regression needs.
    draws
        How many, >= 1, where the method lets one choose.
    bits
        Operating-system entropy; anything else stamps the release insecure.
    rng
        For what is public or drawn after the release (weights of draws, chains); a fresh one if absent.
    progress
        Called with (steps done, steps) by ``dp-sgld``.

    Returns
    -------
    A :class:`Release` of :class:`PosteriorDraws`.

    Raises
    ------
    ParameterError
        for parameters out of range, and for a loss or settings that the method does not take.

    >>> loss = MeanLoss(data_bounds=(0.0, 1.0), sd=0.2, clip=25.0)
    >>> records = loss.records(np.full(2000, 0.5))
    >>> release = sample_rival(records, loss, epsilon=1, delta="1e-4", method="noisy-gibbs", draws=500)
    >>> release.value.values.shape, release.secure, bool(abs(release.value.mean()[0] - 0.5) < 0.05)
    ((500, 1), True, True)
    """
    check_choice(method, "method", RIVALS)
    check_integer(draws, "draws", low=1)
    generator = np.random.default_rng() if rng is None else rng
    count_records(records, "records")
    guarantee = promise(loss, epsilon, delta)
    if guarantee.delta == 0:
        raise ParameterError("delta must be > 0 for Gaussian noise, which is never pure, got 0")
    records = tuple(finite_numbers(column) for column in records)
    run = _rival(records, loss, method, settings, guarantee, draws, bits, generator, progress)
    return run()


def _rival(
    records: Records,
    loss: Loss,
    method: Rival,
    settings: object,
    guarantee: Guarantee,
    draws: int,
    bits: BitSource,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> Callable[[], Release[PosteriorDraws]]:
    """The method, ready to run; settings or a loss that it does not take are refused here."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if method == "dp-sgld":
        from rivals.dp_sgld import SgldPlan, sample_dp_sgld

        chain = SgldPlan() if settings is None else settings
        if not isinstance(chain, SgldPlan):
            raise ParameterError(f"settings of {method} must be an SgldPlan, got {type(chain).__name__}")
        check_trainable(loss, records)
        return lambda: sample_dp_sgld(
            records, loss, epsilon=epsilon, delta=delta, plan=chain, bits=bits, progress=progress
        )
    if method == "dp-bootstrap":
        from rivals.dp_bootstrap import (
            ErmPlan,
            check_convex,
            sample_dp_bootstrap,
            sample_dp_bootstrap_mean,
        )

        default = ErmPlan(resamples=1000) if isinstance(loss, MeanLoss) else ErmPlan()
        fits = default if settings is None else settings
        if not isinstance(fits, ErmPlan):
            raise ParameterError(f"settings of {method} must be an ErmPlan, got {type(fits).__name__}")
        if isinstance(loss, MeanLoss):
            low, high = loss.data_bounds
            return lambda: _converted(
                sample_dp_bootstrap_mean(
                    records[0],
                    data_bounds=(low, high),
                    epsilon=epsilon,
                    delta=delta,
                    resamples=fits.resamples,
                    bits=bits,
                ),
                lambda estimates: estimates.deconvolved(draws, rng=rng),
            )
        check_convex(loss)
        return lambda: _converted(
            sample_dp_bootstrap(records, loss, epsilon=epsilon, delta=delta, plan=fits, bits=bits),
            lambda estimates: estimates.draws,
        )
    gibbs = GibbsPlan() if settings is None else settings
    if not isinstance(gibbs, GibbsPlan):
        raise ParameterError(f"settings of {method} must be a GibbsPlan, got {type(gibbs).__name__}")
    return _noisy_gibbs(records, loss, gibbs, guarantee, draws, bits, rng)


def _noisy_gibbs(
    records: Records,
    loss: Loss,
    plan: GibbsPlan,
    guarantee: Guarantee,
    draws: int,
    bits: BitSource,
    rng: np.random.Generator,
) -> Callable[[], Release[PosteriorDraws]]:
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if isinstance(loss, MeanLoss):
        from rivals.noisy_gibbs_expfam import (
            ExponentialMean,
            GaussianMean,
            sample_noisy_gibbs_mean,
        )

        family = ExponentialMean() if loss.sd is None else GaussianMean(sd=loss.sd)
        return lambda: sample_noisy_gibbs_mean(
            records[0],
            family=family,
            data_bounds=loss.data_bounds,
            epsilon=epsilon,
            delta=delta,
            draws=draws,
            thin=plan.thin,
            bits=bits,
            rng=rng,
        )
    if not isinstance(loss, HuberLoss):
        raise ParameterError(f"noisy-gibbs takes a MeanLoss or a HuberLoss, got {type(loss).__name__}")
    bound = plan.response_bound
    if bound is None:
        raise ParameterError("settings must be a GibbsPlan with a response_bound for a regression")
    from rivals.noisy_gibbs_regression import sample_noisy_gibbs_regression

    return lambda: sample_noisy_gibbs_regression(
        (records[0], records[1]),
        response_bound=bound,
        epsilon=epsilon,
        delta=delta,
        draws=draws,
        thin=plan.thin,
        names=loss.covariates,
        bits=bits,
        rng=rng,
    )


def _converted(release: Release[Value], draws_of: Callable[[Value], PosteriorDraws]) -> Release[PosteriorDraws]:
    """The same release, of draws that follow from its value."""
    return Release(
        value=draws_of(release.value),
        event=release.event,
        guarantee=release.guarantee,
        secure=release.secure,
        remaining=release.remaining,
    )
