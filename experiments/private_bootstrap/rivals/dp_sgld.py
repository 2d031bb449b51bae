"""DP-SGLD: stochastic-gradient Langevin dynamics through noisy sums of clipped gradients.

The target is the tempered Gibbs posterior ``p(theta) ~ exp(-omega sum_i l(theta, x_i))`` on the loss's box. Step t
draws a fresh Poisson minibatch (each record with probability q) and computes

    S_t     = sum over the minibatch of clip(grad l(theta, x_i), L) + L N(0, m^2 I)
    theta  <- clip(theta - (eta_t / 2) (omega / q) S_t + N(0, eta_t I), box),
    eta_t   = step / (n omega) * t^(-decay),

from the loss's public start. The iterates after burn-in are the draws.

**Privacy.** Only S_t sees a record. It is added in integers and noised exactly as in
:mod:`psephos.bootstrap.statistic`, after division by L, so that a record's part has norm at most 1 and one noise
multiplier m serves every L. A family (quantile levels tau) has one chain a level, each with its own bound L(tau), its
own minibatches and its own noise: M T releases of the same kind, accounted together by
:class:`rivals.accountants.PlainTraining`. Langevin noise and the chain itself are post-processing, and every iterate
may be published. omega does not touch the accounting.

**What the draws are.** Noise of privacy enters the chain as heat. Near a mode with mean curvature H per record the
stationary variance of a coordinate is about

    (1 + omega eta m^2 L^2 / (4 q^2)) / (omega n H),

the Gibbs posterior's variance times a factor that does not fade with n at a fixed budget; at (epsilon 1, n = 10 000) of
the source document's regressions it is about 140. The mean of the chain averages that noise away, the interval does
not: it is wide, and covers too often. The lag-one correlation is ``1 - eta omega n H / 2``.

Source: "Private Generative Bootstrap via Blocking", sections 5, 6, S3.1-S3.3; t^(-1/3) after Li et al. (2019), "On
connecting stochastic gradient MCMC and differential privacy". The document gives ``eta_0 n = 20`` for its regressions
and no formula for the update. The one above gives the widths of its tables within 1.5 % (4 % in the noisiest cells)
and its effective sample sizes within 8 %. For its quantile regressions it gives no step; squared widths at omega 1 and
.1 differ there by the same amount at every epsilon, so privacy heats both chains alike and ``eta_0 omega n`` is one
number, hence ``step`` here; 10 fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from psephos._check import Exact, check_integer, check_real, parse_delta, parse_epsilon
from psephos.bootstrap.draws import PosteriorDraws
from psephos.bootstrap.losses import Loss, Records
from psephos.bootstrap.on_device import cpu, device_records, row_gradient
from psephos.bootstrap.statistic import Grid, PoissonSampling, integer_contributions, integer_noise
from psephos.bootstrap.train import assumptions_of, assumptions_of_minibatches, check_trainable
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource, InsecureBits, SystemBits, is_secure
from psephos.privacy.guarantee import Guarantee
from psephos.privacy.release import Release
from rivals.accountants import Method, PaperBound, PlainTraining, calibrate_sigma, delta_upper
from rivals.m_estimate import count_records

__all__ = ["SgldPlan", "sample_dp_sgld", "simulate_dp_sgld"]

_PLACES = 2**23  # places of minibatches that are drawn at once


@dataclass(frozen=True, slots=True, kw_only=True)
class SgldPlan:
    """Public settings of the chains; the defaults are those of the source document's regressions (S3.2).

    Parameters
    ----------
    steps
        T >= 1, of each chain.
    probability
        q: each record is in a minibatch with this probability, rounded down to a multiple of 2^-32.
    tempering
        omega > 0.
    step
        ``eta_0 n omega`` > 0. The chain is stable where ``step t^(-decay) H / 2 < 2``, H the largest mean curvature of
        the loss; before, the box holds it.
    decay
        The step falls as t^(-decay), 0 <= decay <= 1.
    burn_in
        Part of the steps that is dropped, from 0 to below 1.
    thin
        Every which iterate is kept, >= 1.

    >>> SgldPlan().kept, SgldPlan(steps=200_000, probability="0.01", thin=10).kept
    (10000, 10000)
    """

    steps: int = 20_000
    probability: Exact = "0.1"
    tempering: float = 1.0
    step: float = 20.0
    decay: float = 1 / 3
    burn_in: float = 0.5
    thin: int = 1

    def __post_init__(self) -> None:
        check_integer(self.steps, "steps", low=1)
        PoissonSampling.of(self.probability)
        check_real(self.tempering, "tempering", low=1e-9, high=1e9)
        check_real(self.step, "step", low=1e-12, high=1e12)
        check_real(self.decay, "decay", low=0, high=1)
        if not check_real(self.burn_in, "burn_in", low=0, high=1) < 1:
            raise ParameterError(f"burn_in must be >= 0 and < 1, got {self.burn_in!r}")
        check_integer(self.thin, "thin", low=1, high=self.steps)
        if not self.kept:
            raise ParameterError(f"thin must leave at least one draw of {self.steps} steps, got {self.thin!r}")

    @property
    def dropped(self) -> int:
        """Steps of burn-in."""
        return math.floor(self.steps * self.burn_in)

    @property
    def kept(self) -> int:
        """Draws of each chain."""
        return (self.steps - self.dropped) // self.thin

    def step_sizes(self, records: int) -> NDArray[np.float64]:
        """eta_1, ..., eta_T for n records.

        >>> SgldPlan(steps=8).step_sizes(10_000)[[0, 7]].tolist()
        [0.002, 0.001]
        """
        times = np.arange(1, self.steps + 1, dtype=np.float64)
        return np.asarray(self.step / (records * self.tempering) * times**-self.decay)

    def facts(self, *, chains: int = 1) -> PlainTraining:
        """What the accountants see: M T releases of sums whose parts have norm at most 1."""
        return PlainTraining(
            probability=PoissonSampling.of(self.probability).probability, steps=chains * self.steps, gradient_bound=1
        )


def sample_dp_sgld(
    records: Records,
    loss: Loss,
    *,
    epsilon: Exact,
    delta: Exact,
    plan: SgldPlan = SgldPlan(),
    accountant: Method = "pld",
    paper: PaperBound | None = None,
    bits: BitSource = SystemBits(),  # noqa: B008 - stateless
    progress: Callable[[int, int], None] | None = None,
) -> Release[PosteriorDraws]:
    """Draws of a Gibbs posterior by private Langevin dynamics.

    (epsilon, delta)-differentially private for each record under replace-one adjacency; the number of records, the
    loss with its bounds and the plan are public. Draws are correlated: see the effective sample size before using them.

    Parameters
    ----------
    records
        Arrays of n rows, as ``loss`` takes them.
    loss
        With its gradient bound, or a bound a level; a record whose gradient exceeds it is shrunk to it.
    epsilon
        Nats, > 0.
    delta
        0 < delta < 1.
    plan
        Public settings.
    accountant, paper
        Which bound sets the noise: ``"pld"`` is the tightest.
    bits
        Operating-system entropy; anything else stamps the release insecure.
    progress
        Called with (steps done, steps) now and then.

    Returns
    -------
    A :class:`Release` of :class:`PosteriorDraws`: ``(plan.kept, d)``, or ``(levels, plan.kept, d)`` of a family, whose
    chains are independent of each other.

    Raises
    ------
    ParameterError
        for parameters out of range, and for records whose shapes do not agree.

    Source: "Private Generative Bootstrap via Blocking", S3.1-S3.3.

    >>> from psephos.bootstrap.losses import MeanLoss
    >>> loss = MeanLoss(data_bounds=(-5, 5), sd=0.5, clip=8)
    >>> records = loss.records(np.linspace(0.5, 2.5, 400))
    >>> plan = SgldPlan(steps=400, probability="0.2", step=1)
    >>> release = sample_dp_sgld(records, loss, epsilon=4, delta="1e-4", plan=plan)
    >>> release.value.values.shape, release.secure, release.guarantee.epsilon
    ((200, 1), True, Fraction(4, 1))
    """
    budget = parse_epsilon(epsilon), parse_delta(delta)
    noise = calibrate_sigma(
        plan.facts(chains=_chains(loss)), epsilon=budget[0], delta=budget[1], method=accountant, paper=paper
    )
    return _release(
        records,
        loss,
        plan=plan,
        multiplier=noise.sigma,
        guarantee=Guarantee(epsilon=budget[0], delta=budget[1], assumptions=_assumptions(loss, plan)),
        bits=bits,
        public=np.random.default_rng(),
        progress=progress,
    )


def _assumptions(loss: Loss, plan: SgldPlan) -> tuple[str, ...]:
    return (*assumptions_of(loss), *assumptions_of_minibatches(plan.probability))


def simulate_dp_sgld(
    records: Records,
    loss: Loss,
    *,
    key: int,
    epsilon: Exact,
    delta: Exact,
    plan: SgldPlan = SgldPlan(),
    accountant: Method = "pld",
    paper: PaperBound | None = None,
    multiplier: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Release[PosteriorDraws]:
    """:func:`sample_dp_sgld` for experiments on data that nobody needs to protect: all randomness from ``key``.

    The same key gives the same draws on one machine and version. The release is stamped insecure.

    Parameters
    ----------
    key
        A whole number >= 0.
    multiplier
        m, standard deviation of the noise in units of the gradient bound, in place of the calibrated one; >= 0, and 0
        for none. The guarantee then has the delta that this noise gives at ``epsilon``: 1 for none.
    """
    seed = check_integer(key, "key", low=0)
    budget = parse_epsilon(epsilon), parse_delta(delta)
    facts = plan.facts(chains=_chains(loss))
    if multiplier is None:
        multiplier = calibrate_sigma(facts, epsilon=budget[0], delta=budget[1], method=accountant, paper=paper).sigma
    else:
        check_real(multiplier, "multiplier", low=0, high=1e12)
        reached = delta_upper(facts, sigma=Fraction(multiplier), epsilon=budget[0], method=accountant, paper=paper)
        budget = budget[0], min(Fraction(reached), Fraction(1))
    return _release(
        records,
        loss,
        plan=plan,
        multiplier=multiplier,
        guarantee=Guarantee(epsilon=budget[0], delta=budget[1], assumptions=_assumptions(loss, plan)),
        bits=InsecureBits(seed=seed),
        public=np.random.default_rng([seed, 1]),
        progress=progress,
    )


def _chains(loss: Loss) -> int:
    return 1 if loss.levels is None else len(loss.levels)


def _release(
    records: Records,
    loss: Loss,
    *,
    plan: SgldPlan,
    multiplier: float,
    guarantee: Guarantee,
    bits: BitSource,
    public: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> Release[PosteriorDraws]:
    count = count_records(records)
    check_trainable(loss, records)
    draw = _Draw(
        people=count,
        chains=_chains(loss),
        coordinates=len(loss.names),
        plan=plan,
        grid=Grid.for_bound(1.0),
        multiplier=multiplier,
        bits=bits,
        public=public,
    )
    path = _run(records, loss, draw, progress)
    kept = path[plan.dropped + plan.thin - 1 :: plan.thin]
    values = np.ascontiguousarray(np.moveaxis(kept, 1, 0))
    return Release(
        value=PosteriorDraws(values=values[0] if loss.levels is None else values, names=loss.names, levels=loss.levels),
        event=plan.facts(chains=draw.chains).event(Fraction(multiplier)),
        guarantee=guarantee,
        secure=is_secure(bits),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draw:
    """Everything random of a run, drawn before the steps that use it."""

    people: int
    chains: int
    coordinates: int
    plan: SgldPlan
    grid: Grid
    multiplier: float
    bits: BitSource
    public: np.random.Generator

    def segments(self) -> Iterator[tuple[NDArray[Any], ...]]:
        """(step sizes, positions, integer noise, Langevin normals) of consecutive steps, in pieces of about one length.

        Shapes ``(T',)``, ``(T', M, room)``, ``(T', M, d)``, ``(T', M, d)``; a position of n is an empty place.
        """
        plan, sampling = self.plan, PoissonSampling.of(self.plan.probability)
        sizes = plan.step_sizes(self.people)
        most = max(1, _PLACES // (sampling.room(self.people) * self.chains))
        pieces = max(-(-plan.steps // most), min(20, plan.steps))
        for part in np.array_split(sizes, pieces):
            shape = (len(part), self.chains, self.coordinates)
            positions = sampling.minibatches(self.people, len(part) * self.chains, self.bits)
            yield part, positions.reshape(*shape[:2], -1), self._noise(shape), self.public.standard_normal(shape)

    def _noise(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        if not self.multiplier:  # only a simulation gets here
            return np.zeros(shape, dtype=np.int64)
        return integer_noise(self.grid, self.multiplier, shape, self.bits)


def _run(records: Records, loss: Loss, draw: _Draw, progress: Callable[[int, int], None] | None) -> NDArray[np.float64]:
    """Every iterate of every chain: ``(T, M, d)``."""
    with cpu(), jax.enable_x64():
        run = jax.jit(_segment_runner(loss, draw))
        fixed = device_records(records, loss, padded=True)
        state = jnp.tile(jnp.asarray(loss.start, dtype=jnp.float64), (draw.chains, 1))
        path, done = [], 0
        for segment in draw.segments():
            # Returns at once: the next segment is drawn while this one runs.
            state, iterates = run(state, fixed, *(jnp.asarray(part) for part in segment))
            path.append(iterates)
            done += len(segment[0])
            if progress:
                state.block_until_ready()
                progress(done, draw.plan.steps)
        return np.concatenate([np.asarray(iterates) for iterates in path])


def _segment_runner(loss: Loss, draw: _Draw) -> Callable[..., Any]:
    lower, upper = np.asarray(loss.lower), np.asarray(loss.upper)
    levels = np.zeros(1) if loss.levels is None else np.asarray(loss.levels)
    bounds = np.asarray([loss.bound_at(None if loss.levels is None else float(level)) for level in levels])
    cap = int(draw.grid.caps(np.ones(1))[0])
    spacing = float(draw.grid.spacing)
    gradient_of = row_gradient(loss)
    pull = draw.plan.tempering / float(PoissonSampling.of(draw.plan.probability).probability) / 2

    def run(state: Any, fixed: Any, sizes: Any, positions: Any, noise: Any, normals: Any) -> Any:
        def total(theta: Any, level: Any, bound: Any, positions: Any, noise: Any) -> Any:
            batch = tuple(column[positions] for column in fixed)
            gradients = gradient_of(theta.astype(jnp.float32), batch, level.astype(jnp.float32))
            caps = jnp.where(positions < draw.people, cap, 0).astype(jnp.int32)
            steps = integer_contributions((gradients / bound).astype(jnp.float32), caps, 1.0)
            return bound * spacing * (jnp.sum(steps, axis=0, dtype=jnp.int64) + noise)

        def step(state: Any, drawn: Any) -> Any:
            size, positions, noise, normals = drawn
            sums = jax.vmap(total)(state, jnp.asarray(levels), jnp.asarray(bounds), positions, noise)
            state = jnp.clip(state - size * pull * sums + jnp.sqrt(size) * normals, lower, upper)
            return state, state

        return jax.lax.scan(step, state, (sizes, positions, noise, normals))

    return run
