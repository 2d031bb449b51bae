"""Noisy training of a generator: the private step, after which every posterior draw is free.

A private generative Bayesian bootstrap ("Private Generative Bootstrap via Blocking", algorithms 1 and 2). Records are
put at random into S blocks; a generator G_phi maps block weights ``u ~ Dirichlet(gamma 1_S)`` to the parameter. Each of
T steps draws, K times, fresh weights and a fresh Poisson minibatch, and sees the records only through

    sum over the minibatch of  u_block(i) / n_S  * grad l(G_phi(u), x_i)  +  N(0, sigma^2 I).

Replacing one record moves that by at most ``2 u C / n_S``, C the bound of the gradient's norm; u is public. sigma
comes from an accountant of all T K releases (:mod:`psephos.bootstrap.accountant`), which also covers every iterate. All
else is post-processing: the Jacobian, Adam, the trained map, and its draws.

Three sources of randomness, kept apart:

======================  =============================================================================================
noise, inclusion        secret, exact, from ``bits`` (:mod:`psephos.bootstrap.statistic`); stored nowhere
weights, partition,     public: the guarantee holds for a reader who knows them. From a generator seeded afresh by the
initial layers, levels  system, in double precision
======================  =============================================================================================

:func:`psephos.bootstrap.private_generator` has no key and cannot repeat itself. :func:`simulate` takes everything from
its key, for experiments; what it returns is stamped insecure, and no ledger takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from psephos._check import Exact, check_integer, check_real, parse_delta, parse_epsilon
from psephos._extras import load_extra
from psephos.bootstrap.accountant import (
    BlockedTraining,
    NoiseScale,
    calibrate_sigma,
    delta_upper,
    epsilon_upper,
)
from psephos.bootstrap.block_weights import dirichlet_weights, gamma_star
from psephos.bootstrap.generator import NetworkShape, initial_layers
from psephos.bootstrap.generator_posterior import GeneratorPosterior
from psephos.bootstrap.losses import BradleyTerryLoss, Loss, QuantileLoss, Records
from psephos.bootstrap.statistic import Grid, PoissonSampling, Segment, integer_noise
from psephos.errors import ParameterError
from psephos.privacy.bits import BitSource, InsecureBits, is_secure
from psephos.privacy.guarantee import Guarantee, decimal_text
from psephos.privacy.release import Release

__all__ = [
    "TrainingPlan",
    "assumptions_of",
    "assumptions_of_minibatches",
    "check_trainable",
    "count_records",
    "prepared",
    "promise",
    "simulate",
]

#: What the holder declares by calling a mechanism of this package.
PUBLIC_SETTINGS = "the bounds and all settings were chosen without looking at the data"
ONE_RECORD = "each person has one record"
#: A record that joins a minibatch moves those behind it by one place (docs/proofs/bootstrap.md, section 8).
ALIKE_AT_EVERY_PLACE = (
    "the compiled program computes a record's part of a minibatch alike at every place of it (tested, not proved)"
)

_LEAST_DELTA = Fraction(1, 10**300)
_LARGEST = 1e30  # of a parameter: training is in single precision
_MOST_COORDINATES = 2**14  # so that a squared norm in steps of the grid fits 64 bits
_SEGMENT = 2**24  # places of minibatches that are drawn at once


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Public settings of a training; the defaults are those of the source document's regressions (S3.2).

    Parameters
    ----------
    blocks
        S >= 1. Where S does not divide n, block sizes differ by one, and records weigh ``u / floor(n / S)``.
    steps
        T >= 1.
    draws
        K >= 1 weights, each with its own minibatch, per step.
    probability
        q: each record is in a minibatch with this probability, rounded down to a multiple of 2^-32.
    gamma
        Concentration of the block weights, > 0; ``None`` for gamma* (n, S) of equation 8, which needs S >= 3.
    alpha, pseudo_blocks
        Mass of the pseudo-samples, >= 0, and into how many blocks they are put (S2.3.2).
    reshuffle
        Draw a fresh partition at every step. Privacy holds; gamma* no longer restores the dispersion.
    learning_rate, final_rate
        Adam's rate at first, and the part of it at the end of the cosine.
    averaged
        Part of the steps, the last ones, whose layers are averaged, 0 to 1: 0 for the last layers alone. For a network
        without hidden layers that is the usual averaging of iterates.
    network
        Hidden layers of the generator.

    >>> TrainingPlan(steps=100).facts(records=1000, gradient_bound=1.0).compositions
    100
    """

    blocks: int = 20
    steps: int = 10_000
    draws: int = 1
    probability: Exact = "0.1"
    gamma: float | None = None
    alpha: float = 0.0
    pseudo_blocks: int = 0
    reshuffle: bool = False
    learning_rate: float = 5e-4
    final_rate: float = 0.01
    averaged: float = 0.0
    network: NetworkShape = field(default_factory=NetworkShape)

    def __post_init__(self) -> None:
        checked: dict[str, object] = {
            "blocks": check_integer(self.blocks, "blocks", low=1, high=2**15),
            "steps": check_integer(self.steps, "steps", low=1),
            "draws": check_integer(self.draws, "draws", low=1),
            "probability": PoissonSampling.of(self.probability).probability,
            "gamma": None if self.gamma is None else check_real(self.gamma, "gamma", low=1e-6, high=1e9),
            "alpha": check_real(self.alpha, "alpha", low=0, high=1e9),
            "pseudo_blocks": check_integer(self.pseudo_blocks, "pseudo_blocks", low=0, high=2**15),
            "learning_rate": check_real(self.learning_rate, "learning_rate", low=1e-12, high=1e3),
            "final_rate": check_real(self.final_rate, "final_rate", low=0, high=1),
            "averaged": check_real(self.averaged, "averaged", low=0, high=1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if bool(self.alpha) != bool(self.pseudo_blocks):
            raise ParameterError(
                f"alpha and pseudo_blocks go together: got alpha {self.alpha!r}, pseudo_blocks {self.pseudo_blocks!r}"
            )

    def concentration(self, records: int) -> float:
        """gamma, or gamma* of this many records."""
        return gamma_star(records, self.blocks) if self.gamma is None else self.gamma

    def facts(self, *, records: int, gradient_bound: float) -> BlockedTraining:
        """What the accountants see of this plan."""
        return BlockedTraining(
            records=records,
            blocks=self.blocks,
            gamma=self.concentration(records),
            alpha=self.alpha,
            probability=self.probability,
            steps=self.steps,
            draws=self.draws,
            gradient_bound=gradient_bound,
        )


def simulate(
    records: Records,
    loss: Loss,
    *,
    key: int,
    epsilon: Exact,
    delta: Exact,
    plan: TrainingPlan = TrainingPlan(),
    sigma: float | None = None,
    pseudo_records: Records = (),
    progress: Callable[[int, int], None] | None = None,
) -> Release[GeneratorPosterior]:
    """:func:`psephos.bootstrap.private_generator` for experiments on data that nobody needs to protect.

    Not private: whoever knows the key knows the noise.

    All randomness, noise included, is from ``key``.
    The same key gives the same sampler on one machine and version. The release is stamped insecure.

    Parameters
    ----------
    key
        A whole number >= 0.
    sigma
        Noise to use in place of the calibrated one, >= 0; 0 trains without noise. The guarantee then has the delta that
        this noise gives at ``epsilon``: 1 for none.
    """
    seed = check_integer(key, "key", low=0)
    return prepared(
        records,
        loss,
        guarantee=promise(loss, epsilon, delta, declared=assumptions_of_minibatches(plan.probability)),
        plan=plan,
        sigma=None if sigma is None else check_real(sigma, "sigma", low=0, high=1e290),
        pseudo_records=pseudo_records,
        bits=InsecureBits(seed=seed),
        public=np.random.default_rng([seed, 1]),
        progress=progress,
    )()


def prepared(
    records: Records,
    loss: Loss,
    *,
    guarantee: Guarantee,
    plan: TrainingPlan,
    sigma: float | None,
    pseudo_records: Records,
    bits: BitSource,
    public: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> Callable[[], Release[GeneratorPosterior]]:
    """A training that is ready to run: all that can be refused has been, and no record has been read."""
    people = count_records(records, "records")
    if people < plan.blocks:
        raise ParameterError(f"records must be >= blocks, got {people} records and {plan.blocks} blocks")
    pseudo = count_records(pseudo_records, "pseudo_records") if pseudo_records else 0
    if bool(pseudo) != bool(plan.alpha) or pseudo < plan.pseudo_blocks:
        raise ParameterError(f"pseudo_records must be >= pseudo_blocks, got {pseudo} for {plan.pseudo_blocks} blocks")
    loop = _loop()
    check_trainable(loss, records)
    if pseudo:
        check_trainable(loss, pseudo_records)
    grid = Grid.for_bound(loss.bound, divisor=people // plan.blocks)
    facts = plan.facts(records=people, gradient_bound=loss.bound)
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if sigma is None:
        noise = _calibrated(facts, epsilon, delta)
    else:
        noise = _noise_at(facts, sigma, delta)
        guarantee = replace(guarantee, delta=_delta_at(facts, sigma, epsilon))
    draw = _Draw(
        people=people,
        pseudo=pseudo,
        plan=plan,
        loss=loss,
        grid=grid,
        sigma=noise.sigma,
        bits=bits,
        public=public,
    )
    try:
        grid.noise_scale(noise.sigma)
    except ParameterError as error:
        asked = f"epsilon {decimal_text(guarantee.epsilon)} and delta {decimal_text(guarantee.delta)}"
        raise ParameterError(f"{error}, got {asked}") from None
    secure = is_secure(bits)

    def run() -> Release[GeneratorPosterior]:
        layers = loop.trained_layers(
            initial_layers(plan.network, inputs=draw.inputs, start=loss.start, rng=public),
            _ahead(draw.segments()),
            records=records,
            pseudo_records=pseudo_records,
            loss=loss,
            grid=grid,
            schedule=loop.Schedule(
                first=plan.learning_rate,
                floor=plan.final_rate,
                steps=plan.steps,
                averaged=max(round(plan.averaged * plan.steps), 1),
            ),
            progress=progress,
        )
        posterior = GeneratorPosterior(
            layers=layers,
            names=loss.names,
            lower=loss.lower,
            upper=loss.upper,
            levels=loss.levels,
            pseudo_blocks=plan.pseudo_blocks,
            training=facts,
            noise=noise,
            guarantee=guarantee,
            secure=secure,
            covariate_box=loss.covariate_box if isinstance(loss, QuantileLoss) else (),
        )
        return Release(value=posterior, event=facts.event(noise.sigma), guarantee=guarantee, secure=secure)

    return run


def count_records(records: Records, name: str) -> int:
    """How many records there are; the arrays must agree."""
    if not isinstance(records, tuple) or not records or not all(isinstance(column, np.ndarray) for column in records):
        raise ParameterError(f"{name} must be a tuple of arrays, got {type(records).__name__}")
    for column in records:
        if column.dtype.kind not in "fiub":
            raise ParameterError(f"{name} must be arrays of numbers, got one of {column.dtype}")
    lengths = {column.shape[0] if column.ndim else 0 for column in records}
    if len(lengths) != 1 or not min(lengths):
        raise ParameterError(f"{name} must be arrays with one row a record, got rows {sorted(lengths)}")
    return lengths.pop()


@lru_cache(maxsize=64)
def _calibrated(facts: BlockedTraining, epsilon: Fraction, delta: Fraction) -> NoiseScale:
    """Public facts give the same noise every time."""
    return calibrate_sigma(facts, epsilon=epsilon, delta=delta)


def assumptions_of(loss: Loss) -> tuple[str, ...]:
    """What the guarantee rests on: a record is a person, and what shaped the computation is public."""
    return (PUBLIC_SETTINGS,) if isinstance(loss, BradleyTerryLoss) else (PUBLIC_SETTINGS, ONE_RECORD)


def assumptions_of_minibatches(probability: Exact) -> tuple[str, ...]:
    """What sums over gathered minibatches rest on; nothing where everybody is in each, at a place of their own."""
    return () if PoissonSampling.of(probability).probability == 1 else (ALIKE_AT_EVERY_PLACE,)


def check_trainable(loss: Loss, records: Records) -> None:
    """Refuse, on public facts alone, what a training could not use: shapes, types, boxes beyond single precision.

    Raises
    ------
    ParameterError
        naming what does not fit.
    """
    if len(loss.names) > _MOST_COORDINATES:
        raise ParameterError(f"the loss must have at most {_MOST_COORDINATES} coordinates, got {len(loss.names)}")
    for name, low, high, start in zip(loss.names, loss.lower, loss.upper, loss.start, strict=True):
        if not -_LARGEST <= low <= start <= high <= _LARGEST or not np.float32(low) < np.float32(high):
            raise ParameterError(
                f"the box of {name!r} must have ends within {_LARGEST:g} that differ in single precision, and hold the "
                f"start: got {low!r} to {high!r} and {start!r}"
            )
    _loop()
    load_extra("psephos.bootstrap.on_device", "bootstrap").check_gradient(loss, records)


def promise(loss: Loss, epsilon: Exact, delta: Exact, *, declared: tuple[str, ...] = ()) -> Guarantee:
    """What a fit of the loss guarantees, with what its holder declared beside."""
    assumptions = (*assumptions_of(loss), *declared)
    return Guarantee(epsilon=parse_epsilon(epsilon), delta=parse_delta(delta), assumptions=assumptions)


def _loop() -> ModuleType:
    """The compiled loop; an error that names the package that is missing."""
    for package in ("jax", "optax"):
        load_extra(package, "bootstrap")
    return load_extra("psephos.bootstrap.training_loop", "bootstrap")


@lru_cache(maxsize=64)
def _delta_at(facts: BlockedTraining, sigma: float, epsilon: Fraction) -> Fraction:
    if not sigma:
        return Fraction(1)
    reached = delta_upper(facts, sigma=Fraction(sigma), epsilon=epsilon)
    return min(max(Fraction(reached), _LEAST_DELTA), Fraction(1))


@lru_cache(maxsize=64)
def _noise_at(facts: BlockedTraining, sigma: float, delta: Fraction) -> NoiseScale:
    """A noise scale that was given, with what it gives."""
    reached = epsilon_upper(facts, sigma=Fraction(sigma), delta=delta)
    return NoiseScale(sigma=sigma, epsilon_upper=reached, delta=delta, method="pld", order=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draw:
    """Everything random of a training, drawn before the step that uses it."""

    people: int
    pseudo: int
    plan: TrainingPlan
    loss: Loss
    grid: Grid
    sigma: float
    bits: BitSource
    public: np.random.Generator

    @property
    def inputs(self) -> int:
        """How many numbers the generator reads."""
        return self.plan.blocks + self.plan.pseudo_blocks + (self.loss.levels is not None)

    def segments(self) -> Iterator[Segment]:
        """The steps, in segments of about equal length."""
        sampling = PoissonSampling.of(self.plan.probability)
        blocks = self._partition(self.people, self.plan.blocks)
        pseudo_blocks = self._partition(self.pseudo, self.plan.pseudo_blocks) if self.pseudo else None
        length = self._length(sampling.room(self.people) + self.pseudo)
        for first in range(0, self.plan.steps, length):
            steps = min(length, self.plan.steps - first)
            yield self._segment(steps, sampling, blocks, pseudo_blocks)

    def _length(self, places: int) -> int:
        """Steps of a segment: at most what memory allows and a twentieth of all; a divisor of all where one is near."""
        most = max(1, min(_SEGMENT // (places * self.plan.draws), -(-self.plan.steps // 20)))
        near = [length for length in range(max(1, most // 2), most + 1) if self.plan.steps % length == 0]
        return near[-1] if near else most

    def _partition(self, rows: int, blocks: int) -> NDArray[np.int64]:
        return self.public.permutation(rows) % blocks

    def _segment(
        self,
        steps: int,
        sampling: PoissonSampling,
        blocks: NDArray[np.int64],
        pseudo_blocks: NDArray[np.int64] | None,
    ) -> Segment:
        plan, loss = self.plan, self.loss
        shape = (steps, plan.draws)
        count = steps * plan.draws
        weights = dirichlet_weights(
            plan.blocks,
            plan.concentration(self.people),
            count,
            self.public,
            alpha=plan.alpha,
            pseudo_blocks=plan.pseudo_blocks,
        )
        levels = np.zeros(count)
        if loss.levels is not None:
            levels = self.public.choice(loss.levels, size=count, p=loss.level_weights)
        inputs = weights if loss.levels is None else np.concatenate([weights, levels[:, None]], axis=1)
        positions = sampling.minibatches(self.people, count, self.bits)
        caps = np.concatenate([self.grid.caps(weights[:, : plan.blocks]), np.zeros((count, 1), np.int32)], axis=1)
        return Segment(
            positions=positions.reshape(*shape, -1),
            caps=self._caps(positions, caps, blocks).reshape(*shape, -1),
            inputs=inputs.astype(np.float32).reshape(*shape, -1),
            levels=levels.astype(np.float32).reshape(shape),
            pseudo_weights=self._pseudo_weights(weights, pseudo_blocks, float(sampling.probability)).reshape(
                *shape, -1
            ),
            noise=self._noise((*shape, len(loss.names))),
        )

    def _caps(
        self, positions: NDArray[np.int32], caps: NDArray[np.int32], blocks: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """The cap of each record of each minibatch; 0 in an empty place."""
        if not self.plan.reshuffle:
            return np.take_along_axis(caps, np.append(blocks, self.plan.blocks)[positions], axis=1)
        draws = self.plan.draws
        result = np.empty_like(positions)
        for first in range(0, len(positions), draws):
            of_record = np.append(self._partition(self.people, self.plan.blocks), self.plan.blocks)
            rows = slice(first, first + draws)
            result[rows] = np.take_along_axis(caps[rows], of_record[positions[rows]], axis=1)
        return result

    def _pseudo_weights(
        self, weights: NDArray[np.float64], pseudo_blocks: NDArray[np.int64] | None, probability: float
    ) -> NDArray[np.float32]:
        """q times each pseudo-sample's weight, the size that the private part has on average."""
        if pseudo_blocks is None:
            return np.zeros((len(weights), 0), np.float32)
        sizes = np.bincount(pseudo_blocks, minlength=self.plan.pseudo_blocks)
        each = probability * weights[:, self.plan.blocks :] / sizes
        return each[:, pseudo_blocks].astype(np.float32)

    def _noise(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        if not self.sigma:  # only a simulation gets here
            return np.zeros(shape, dtype=np.int64)
        return integer_noise(self.grid, self.sigma, shape, self.bits)


def _ahead(segments: Iterator[Segment]) -> Iterator[Segment]:
    """The same segments, each drawn while the one before it is in use."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(next, segments, None)
        while (segment := coming.result()) is not None:
            coming = pool.submit(next, segments, None)
            yield segment
