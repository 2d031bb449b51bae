"""The compiled loop of noisy training: one scan over steps, in JAX.

Everything random is drawn before a step runs and handed to it: which records take part and their caps, the block
weights and levels, and the integer noise. A step computes, for each of its K draws (equation 4 of the source document),

    theta = G_phi(u),   stat = g (sum_i integer contribution of i at theta + integer noise) + q * (pseudo-sample part),

and descends along the mean of ``stat . dG_phi(u)/dphi`` by Adam. What a step reads from the records is ``stat`` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from psephos.bootstrap.generator import Layers
from psephos.bootstrap.losses import Loss, Records
from psephos.bootstrap.on_device import cpu, device_records, row_gradient
from psephos.bootstrap.statistic import Grid, Segment, integer_contributions

__all__ = ["Schedule", "trained_layers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Adam with a learning rate that falls along a cosine from ``first`` to ``floor * first`` in ``steps`` steps.

    What comes out is the mean of the layers after each of the last ``averaged`` steps, 1 for the last alone.
    """

    first: float
    floor: float
    steps: int
    averaged: int = 1

    def optimiser(self) -> optax.GradientTransformation:
        """The update rule."""
        return optax.adam(optax.cosine_decay_schedule(self.first, self.steps, self.floor))


def trained_layers(
    layers: Layers,
    segments: Iterator[Segment],
    *,
    records: Records,
    pseudo_records: Records,
    loss: Loss,
    grid: Grid,
    schedule: Schedule,
    progress: Callable[[int, int], None] | None,
) -> Layers:
    """The layers after every segment has run.

    ``progress`` is called with (steps done, steps in all) after each segment.
    """
    with cpu(), jax.enable_x64():
        run = _compiled(cast("Hashable", loss), grid, schedule)
        fixed = device_records(records, loss, padded=True), device_records(pseudo_records, loss, padded=False)
        state: Any = tuple((jnp.asarray(w), jnp.asarray(b)) for w, b in layers)
        state = (state, schedule.optimiser().init(state), state, jnp.asarray(0, jnp.int64))
        done = 0
        for segment in segments:
            drawn = tuple(
                jnp.asarray(getattr(segment, name))
                for name in ("positions", "caps", "inputs", "levels", "pseudo_weights", "noise")
            )
            state = run(state, fixed, drawn)  # returns at once; the next segment is drawn while this one runs
            done += len(segment.noise)
            if progress:
                jax.block_until_ready(state)  # type: ignore[no-untyped-call]
                progress(done, schedule.steps)
        return tuple((np.asarray(weights), np.asarray(biases)) for weights, biases in state[2])


@lru_cache(maxsize=16)
def _compiled(loss: Any, grid: Grid, schedule: Schedule) -> Callable[[Any, Any, Any], Any]:
    """One program for all trainings that differ in their records alone."""
    return jax.jit(_segment_runner(loss, grid, schedule))


def _segment_runner(loss: Loss, grid: Grid, schedule: Schedule) -> Callable[[Any, Any, Any], Any]:
    optimiser = schedule.optimiser()
    lower, upper = np.asarray(loss.lower, np.float32), np.asarray(loss.upper, np.float32)
    spacing, bound = float(grid.spacing), grid.gradient_bound
    gradient_of = row_gradient(loss)

    def network(layers: Any, inputs: jax.Array) -> jax.Array:
        hidden = inputs
        for weights, biases in layers[:-1]:
            hidden = jnp.concatenate([jax.nn.relu(weights @ hidden + biases), inputs])
        weights, biases = layers[-1]
        raw = weights @ hidden + biases
        clipped: jax.Array = raw + jax.lax.stop_gradient(jnp.clip(raw, lower, upper) - raw)
        return clipped

    def run(state: Any, fixed: Any, drawn: Any) -> Any:
        records, pseudo_records = fixed

        def statistic(theta: Any, positions: Any, caps: Any, level: Any, pseudo_weights: Any, noise: Any) -> Any:
            batch = tuple(column[positions] for column in records)
            steps = integer_contributions(gradient_of(theta, batch, level), caps, bound)
            total = jnp.sum(steps, axis=0, dtype=jnp.int64) + noise
            released = (total.astype(jnp.float64) * spacing).astype(jnp.float32)
            if pseudo_records:
                public = gradient_of(theta, pseudo_records, level)
                released = released + jnp.sum(pseudo_weights[:, None] * public, axis=0)
            return released

        def step(state: Any, drawn: Any) -> Any:
            layers, memory, mean, done = state
            positions, caps, inputs, levels, pseudo_weights, noise = drawn
            theta, pull = jax.vjp(lambda layers: jax.vmap(lambda u: network(layers, u))(inputs), layers)
            statistics = jax.vmap(statistic)(theta, positions, caps, levels, pseudo_weights, noise)
            (gradient,) = pull(statistics / len(statistics))
            updates, memory = optimiser.update(gradient, memory, layers)
            layers = optax.apply_updates(layers, updates)
            counted = jnp.maximum(done - (schedule.steps - schedule.averaged), 0) + 1
            mean = jax.tree.map(lambda old, new: old + (new - old) / counted.astype(old.dtype), mean, layers)
            return (layers, memory, mean, done + 1), None

        return jax.lax.scan(step, state, drawn)[0]

    return run
