"""The generator: a map from public block weights (and a level) to the parameter.

The network of the source document (S3.2): hidden layers with rectifiers, the block weights concatenated again after
every hidden layer, a linear output clipped to the parameter box. Weights start uniform within ``sqrt(6 / (inputs +
outputs))`` of zero (Glorot and Bengio 2010) and biases at zero, the last at the loss's public start value. The document
does not state its initialisation; this one reproduces the width of its intervals, which weights .57 or 1.39 times as
large miss by a tenth to a fifth (``experiments/private_bootstrap``).

Clipping passes gradients through (a straight-through estimate): a clipped coordinate is pulled back by the statistic
at the boundary, where the derivative of clipping, zero, would leave it for good.

A trained network is plain arrays; :func:`evaluate` needs numpy alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_integer, check_real

__all__ = ["Layers", "NetworkShape", "evaluate", "initial_layers"]

Float = NDArray[np.float32]

#: (weights, biases) of every layer: ``(outputs, inputs)`` and ``(outputs,)``.
Layers = tuple[tuple[Float, Float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkShape:
    """Hidden layers of the network.

    Parameters
    ----------
    width
        Units of a hidden layer, 1 to 65,536.
    depth
        Hidden layers, 0 to 64. Without any the generator is affine.
    spread
        Initial weights are this many times those of Glorot and Bengio, 1e-6 to 1e6.

    >>> NetworkShape().sizes(inputs=20, outputs=4)
    ((256, 20), (256, 276), (256, 276), (4, 276))
    """

    width: int = 256
    depth: int = 3
    spread: float = 1.0

    def __post_init__(self) -> None:
        checked: dict[str, object] = {
            "width": check_integer(self.width, "width", low=1, high=65536),
            "depth": check_integer(self.depth, "depth", low=0, high=64),
            "spread": check_real(self.spread, "spread", low=1e-6, high=1e6),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def sizes(self, *, inputs: int, outputs: int) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of every layer."""
        hidden = [(self.width, inputs if not i else self.width + inputs) for i in range(self.depth)]
        return (*hidden, (outputs, self.width + inputs if self.depth else inputs))


def initial_layers(shape: NetworkShape, *, inputs: int, start: tuple[float, ...], rng: np.random.Generator) -> Layers:
    """Fresh layers whose output lies around ``start``.

    >>> layers = initial_layers(NetworkShape(width=4, depth=1), inputs=2, start=(0.0,), rng=np.random.default_rng(1))
    >>> [weights.shape for weights, _ in layers]
    [(4, 2), (1, 6)]
    """
    layers = []
    for outputs, size in shape.sizes(inputs=inputs, outputs=len(start)):
        limit = shape.spread * np.sqrt(6 / (outputs + size))
        weights = rng.uniform(-limit, limit, (outputs, size)).astype(np.float32)
        layers.append((weights, np.zeros(outputs, dtype=np.float32)))
    return (*layers[:-1], (layers[-1][0], np.asarray(start, dtype=np.float32)))


def evaluate(
    layers: Layers, inputs: NDArray[np.float64], *, lower: tuple[float, ...], upper: tuple[float, ...]
) -> NDArray[np.float64]:
    """The map at many inputs: ``(draws, inputs)`` to ``(draws, d)``.

    >>> layers = ((np.ones((1, 2), np.float32), np.zeros(1, np.float32)),)
    >>> evaluate(layers, np.array([[1.0, 2.0], [9.0, 9.0]]), lower=(0.0,), upper=(10.0,))
    array([[ 3.],
           [10.]])
    """
    single = np.asarray(inputs, dtype=np.float32)
    hidden = single
    for weights, biases in layers[:-1]:
        hidden = np.concatenate([np.maximum(hidden @ weights.T + biases, 0), single], axis=1)
    weights, biases = layers[-1]
    return np.clip((hidden @ weights.T + biases).astype(np.float64), lower, upper)
