"""Private M-estimation whose posterior knows its noise: a few noisy Newton steps, and one more that all rests on.

The other way to a private posterior, next to training a sampler (:mod:`psephos.bootstrap.train`): where the posterior
is near normal, a place near the minimiser and three noisy sums there say all
(:class:`psephos.bootstrap.NormalPosterior`). It needs numpy alone.

1. **Frame**: of a regression, the second moment of the covariates, twice, the second time in coordinates in which the
   first is about the identity. All that follows is measured in such coordinates z, ``theta = theta0 + frame z``, so
   that noise of one size in all directions suits all. A record's leverage, ``h = x' M^-1 x``, is p on average; one with
   ``h > 6 p`` counts ``6 p / h`` from here on, so that no record moves a mean by more than noise was sized for.
   Directions in which covariates are known to vary hardly, as of collinear columns, are left out up to the last step:
   the loss hardly changes there, and a search that strays along them strays into a corner of the box.
2. **Pilot**: steps from the loss's public start, each with a noisy mean gradient and a noisy mean of curvatures that
   lie above the loss (:class:`psephos.bootstrap.loss_protocol.Curved`), so that steps do not overshoot. A scale
   or an exponential mean, of which that does not hold, moves on a logarithmic scale, by a factor e at most.
3. **Newton**: at the pilot's place the curvature itself, and a gradient; one step.
4. **Last**: where that leads, the curvature again, the sum of squared scores, and a gradient with most of the budget.

Every sum is of all n people, each of whom has a bounded part in it whatever their record is
(:mod:`psephos.bootstrap.noisy_moments`), in units that are public or depend on earlier releases alone. So each release
is a Gaussian mechanism of a known mu, chosen by those before it, and together they are one with ``mu^2 = sum mu_j^2``
(Dong, Roth and Su, "Gaussian differential privacy", Corollary 3.3; ``docs/proofs/bootstrap.md``). The shares of mu^2
are those of the plan.

Source: M-estimation with noisy Newton steps under Gaussian differential privacy, after Avella-Medina, Bradshaw and
Loh, "Differentially private inference via noisy optimization" (2023); steps, shares and posterior are our own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from psephos._check import Exact, check_integer, positive
from psephos.bootstrap.losses import Loss, Records, ShippedLoss
from psephos.bootstrap.normal_posterior import NormalPosterior
from psephos.bootstrap.people import REGRESSIONS, People, check_records, find_pilot, stepped
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource, is_secure
from psephos.privacy.events import ComposedGaussianEvent, Event
from psephos.privacy.gaussian import mu_lower
from psephos.privacy.guarantee import Guarantee, decimal_text

__all__ = ["FIRST", "SandwichFit", "SandwichPlan", "shares_paid"]

Floats = NDArray[np.float64]

_SHARES = ("frame", "pilot", "curvature", "middle", "scores")
_MOST_SHARES = Fraction(9, 10)
#: Of the curvature's share, for the Newton step; the posterior has the rest.
FIRST = Fraction(1, 3)
_LEAST_SHARE = Fraction(1, 2**60)  # of mu^2 in one release: with less, noise is above all that a sum can hold


@dataclass(frozen=True, slots=True, kw_only=True)
class SandwichPlan:
    """Public settings. Shares of mu^2 are exact numbers; those not given follow from public facts (:meth:`shares`).

    Parameters
    ----------
    steps
        Of the pilot, >= 1.
    growth
        The budget of a pilot step over that of the step before, >= 1: far from the minimum noise matters least.
    frame
        Share of the frame; it goes to the last gradient where there are no covariates.
    pilot
        Share of all pilot steps together, half of it for their gradients.
    curvature, middle, scores
        Shares of the curvature (a third for the Newton step), of the gradient beside it, and of the squared scores. The
        last gradient has the rest.
    """

    steps: int = 12
    growth: Exact = "1.3"
    frame: Exact | None = None
    pilot: Exact | None = None
    curvature: Exact | None = None
    middle: Exact | None = None
    scores: Exact | None = None

    def __post_init__(self) -> None:
        check_integer(self.steps, "steps", low=1, high=1000)
        if not 1 <= positive(self.growth, "growth") <= 100:
            raise ParameterError(f"growth must be >= 1 and <= 100, got {self.growth!r}")
        given = self._given()
        total = sum(given.values(), Fraction(0))
        if total > _MOST_SHARES or (total == _MOST_SHARES and len(given) < len(_SHARES)):
            raise ParameterError(
                f"{', '.join(_SHARES)} must leave a tenth for the last gradient, and something for those not given, "
                f"got {total} for {', '.join(given)}"
            )

    def shares(self, *, people: int, mu: float, coordinates: int) -> tuple[Fraction, ...]:
        """Of each release, in order: frame twice, gradient and curvature of each pilot step, then the rest.

        With ``x = people * mu`` (the number of people over the noise in a sum to which each adds 1 at most), the pilot
        has ``6 / sqrt(x)``, within [.1, .3], the frame a fifth and the middle a half of that, the curvature
        ``60 coordinates / x``, within [.15, .25], and the scores ``150 / x``, within [.02, .05]: where noise is small
        beside all that is measured, the last gradient has most, and where it is not, a place and a curvature must be
        found first.

        >>> shares = SandwichPlan(steps=1).shares(people=10_000, mu=0.3, coordinates=4)
        >>> [round(float(share), 3) for share in shares]
        [0.011, 0.011, 0.055, 0.055, 0.15, 0.055, 0.05, 0.613]
        """
        x = max(people * mu, 1e-9)
        pilot = min(max(6 / math.sqrt(x), 0.1), 0.3)
        found = {
            "frame": pilot / 5,
            "pilot": pilot,
            "curvature": min(max(60 * coordinates / x, 0.15), 0.25),
            "middle": pilot / 2,
            "scores": min(max(150 / x, 0.02), 0.05),
        }
        given = self._given()
        known = {name: Fraction(round(1000 * share), 1000) for name, share in found.items() if name not in given}
        left = _MOST_SHARES - sum(given.values(), Fraction(0))
        if (wanted := sum(known.values(), Fraction(0))) > left:
            known = {name: share * left / wanted for name, share in known.items()}
        known |= given
        growth = positive(self.growth, "growth")
        weights = [growth**step for step in range(self.steps)]
        whole = 2 * sum(weights, Fraction(0))
        steps = [known["pilot"] * weight / whole for weight in weights for _ in range(2)]
        last = 1 - sum(known.values(), Fraction(0))
        halves = (known["frame"] / 2,) * 2
        return (*halves, *steps, known["curvature"], known["middle"], known["scores"], last)

    def _given(self) -> dict[str, Fraction]:
        return {name: positive(x, name) for name in _SHARES if (x := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandwichFit:
    """A fit that is ready to run, in public facts alone: all that can be refused has been."""

    loss: ShippedLoss
    shares: list[Fraction]
    guarantee: Guarantee

    @classmethod
    def planned(cls, records: Records, loss: Loss, *, guarantee: Guarantee, settings: SandwichPlan) -> Self:
        """Refuse, by shapes and public facts, what cannot be fitted."""
        checked = check_records(records, loss)
        return cls(loss=checked, shares=shares_paid(settings, records, loss, guarantee), guarantee=guarantee)

    def run(self, records: Records, bits: BitSource) -> tuple[NormalPosterior, Event]:
        """The posterior, and what ran."""
        people = People(records=records, loss=self.loss, bits=bits)
        with np.errstate(all="ignore"):
            posterior = _fitted(people, self.shares, self.guarantee)
        return posterior, ComposedGaussianEvent(parts=tuple(people.events))


def shares_paid(plan: SandwichPlan, records: Records, loss: Loss, guarantee: Guarantee) -> list[Fraction]:
    """mu^2 of each release, in the order of :meth:`SandwichPlan.shares`.

    Raises
    ------
    ParameterError
        for a budget so small that noise would exceed all that could be released.
    """
    mu = mu_lower(guarantee.epsilon, guarantee.delta)
    levels = len(loss.levels or (1,))
    planned = plan.shares(people=len(records[0]), mu=float(mu), coordinates=len(loss.names) * levels)
    shares = [mu**2 * share for share in planned]
    if not isinstance(loss, REGRESSIONS):  # nothing to find a frame of
        shares[-1] += shares[0] + shares[1]
    if min(shares) < _LEAST_SHARE * levels:
        raise ParameterError(
            f"epsilon and delta must be such that noise is below {float(_LEAST_SHARE) ** -0.5:.0e} times what a person "
            f"can add to a sum, got epsilon {decimal_text(guarantee.epsilon)} and delta {decimal_text(guarantee.delta)}"
        )
    return shares


def _fitted(people: People, shares: list[Fraction], guarantee: Guarantee) -> NormalPosterior:
    loss = people.loss
    people.find_frame(shares[:2])
    whole = people.frame
    people.frame = whole[:, ~people.weak]
    place, _ = find_pilot(people, shares[2:-4])
    of_curvature, of_middle, of_scores, of_last = shares[-4:]
    people.frame = whole
    curvature, sds = people.curvature(place, of_curvature * FIRST, majorising=False)
    curvature, told = people.told(curvature, sds)
    whole = people.frame
    people.frame = whole[:, :told]
    gradient, noise = people.gradient(place, of_middle)
    before, place = place, stepped(place, gradient, curvature[:, :told, :told], sds, noise=noise, people=people)
    people.frame = whole
    people.move_frame(before, place)
    curvature, sds = people.curvature(place, of_curvature * (1 - FIRST), majorising=False)
    scores, scores_sd = people.scores(place, of_scores)
    gradient, gradient_sd = people.gradient(place, of_last)
    curvature = people.on_log_scales(place, gradient, curvature)
    return NormalPosterior(
        names=loss.names,
        lower=loss.lower,
        upper=loss.upper,
        levels=loss.levels,
        logs=loss.log_coordinates,
        people=people.count,
        frame=people.frame,
        place=place,
        gradient=gradient,
        gradient_sd=gradient_sd,
        curvature=curvature,
        curvature_sd=sds,
        scores=scores,
        scores_sd=scores_sd,
        scores_bound=people.gradient_bound**2,
        guarantee=guarantee,
        secure=is_secure(people.bits),
    )
