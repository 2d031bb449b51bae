"""The trained sampler: a map from public weights to the parameter, with its guarantee.

Training paid for the map; drawing from it reads no record and costs nothing. A sampler on disk
(:mod:`psephos.bootstrap.archive`) holds no key, no seed and nothing of a minibatch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from psephos._check import check_choice, check_integer, check_real, exact, parse_delta
from psephos.bootstrap.accountant import ACCOUNTANTS, BlockedTraining, NoiseScale
from psephos.bootstrap.archive import (
    Saved,
    archive_bytes,
    box_from_header,
    guarantee_from_header,
    guarantee_to_header,
    read_archive,
)
from psephos.bootstrap.block_weights import dirichlet_weights
from psephos.bootstrap.draws import PosteriorDraws, chosen_levels
from psephos.bootstrap.generator import Layers, evaluate
from psephos.bootstrap.loss_protocol import check_names
from psephos.bootstrap.rearrangement import CovariateBox
from psephos.errors import ParameterError
from psephos.privacy.guarantee import Guarantee

__all__ = ["GeneratorPosterior"]

_SCHEMA = "psephos.generator-posterior/1"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GeneratorPosterior(Saved):
    """A private sampler of a posterior.

    Attributes
    ----------
    layers
        Of the generator.
    names, lower, upper
        Of the d coordinates: names and the box of the parameter.
    levels
        Levels it was trained at, or ``None``.
    pseudo_blocks
        Blocks of pseudo-samples.
    training
        Public facts that the accountants saw.
    noise
        The standard deviation of the training's noise and what it gives.
    guarantee
        What is promised.
    secure
        Whether every secret bit came from the operating system.
    covariate_box
        Ranges of covariates in which draws at several levels do not cross.
    """

    method: ClassVar[str] = "generator"

    layers: Layers
    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[float, ...] | None
    pseudo_blocks: int
    training: BlockedTraining
    noise: NoiseScale
    guarantee: Guarantee
    secure: bool
    covariate_box: CovariateBox = ()

    def sample(
        self,
        draws: int,
        *,
        levels: Sequence[float] | None = None,
        rng: np.random.Generator | None = None,
        rearranged: bool = True,
    ) -> PosteriorDraws:
        """Independent draws: fresh weights through the map. Free of privacy cost.

        Parameters
        ----------
        draws
            How many, >= 1.
        levels
            Of a family: increasing, within the range of those trained at; the trained ones if absent. One draw uses
            the same weights at all of them.
        rng
            For the weights; a fresh one if absent. Draws are public, so this needs no secret.
        rearranged
            Whether lines at several levels are kept from crossing in ``covariate_box``: ``False`` gives raw draws.
        """
        count = check_integer(draws, "draws", low=1)
        generator = np.random.default_rng() if rng is None else rng
        facts = self.training
        weights = dirichlet_weights(
            facts.blocks, facts.gamma, count, generator, alpha=facts.alpha, pseudo_blocks=self.pseudo_blocks
        )
        chosen = chosen_levels(levels, self.levels)
        if chosen is None:
            values = evaluate(self.layers, weights, lower=self.lower, upper=self.upper)
            return PosteriorDraws(values=values, names=self.names)
        values = np.stack(
            [
                evaluate(
                    self.layers,
                    np.concatenate([weights, np.full((count, 1), level)], axis=1),
                    lower=self.lower,
                    upper=self.upper,
                )
                for level in chosen
            ]
        )
        drawn = PosteriorDraws(values=values, names=self.names, levels=chosen)
        return drawn.rearranged(self.covariate_box) if rearranged else drawn

    def to_bytes(self) -> bytes:
        """The sampler as the bytes of an ``.npz`` archive."""
        facts = asdict(self.training)
        header = {
            "schema": _SCHEMA,
            "names": self.names,
            "lower": self.lower,
            "upper": self.upper,
            "levels": self.levels,
            "pseudo_blocks": self.pseudo_blocks,
            "training": {
                **facts,
                "probability": str(facts["probability"]),
            },
            "noise": {
                **asdict(self.noise),
                "delta": str(self.noise.delta),
                "epsilon_upper": None if math.isinf(self.noise.epsilon_upper) else self.noise.epsilon_upper,
            },
            "guarantee": guarantee_to_header(self.guarantee),
            "secure": self.secure,
            "covariate_box": self.covariate_box,
        }
        arrays = {}
        for index, (weights, biases) in enumerate(self.layers):
            arrays[f"weights{index}"], arrays[f"biases{index}"] = weights, biases
        return archive_bytes(header, arrays)

    @classmethod
    def _read(cls, data: bytes) -> GeneratorPosterior:
        header, arrays = read_archive(data, _SCHEMA)
        layers = tuple((arrays[f"weights{i}"], arrays[f"biases{i}"]) for i in range(len(arrays) // 2))
        training, noise = header["training"], header["noise"]
        bound = noise["epsilon_upper"]
        return cls(
            layers=layers,
            names=check_names(header["names"], "names"),
            lower=tuple(header["lower"]),
            upper=tuple(header["upper"]),
            levels=None if header["levels"] is None else tuple(header["levels"]),
            pseudo_blocks=check_integer(header["pseudo_blocks"], "pseudo_blocks", low=0, high=2**15),
            training=BlockedTraining(
                **{**training, "probability": exact(training["probability"], "probability", "a number")},
            ),
            noise=NoiseScale(
                sigma=check_real(noise["sigma"], "sigma", low=0, high=1e290),
                epsilon_upper=math.inf if bound is None else check_real(bound, "epsilon_upper", low=0, high=1e300),
                delta=parse_delta(noise["delta"]),
                method=noise["method"],
                order=noise["order"],
            ),
            guarantee=guarantee_from_header(header["guarantee"]),
            secure=header["secure"],
            covariate_box=box_from_header(header["covariate_box"]),
        )

    def _check(self) -> None:
        """Refuse parts that do not belong together."""
        check_choice(self.noise.method, "accountant", ACCOUNTANTS)
        levels = self.levels
        if levels is not None and not (levels and all(0 < x < 1 for x in levels) and np.all(np.diff(levels) > 0)):
            raise ParameterError(f"levels must be increasing and between 0 and 1, got {levels!r}")
        inputs = self.training.blocks + self.pseudo_blocks + (levels is not None)
        width = 0
        for weights, biases in self.layers:
            if weights.shape != (biases.size, width + inputs) or biases.ndim != 1:
                raise ParameterError(f"not a saved posterior: a layer has shape {weights.shape}")
            if weights.dtype != np.float32 or biases.dtype != np.float32:
                raise ParameterError("not a saved posterior: layers must be in single precision")
            if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
                raise ParameterError("not a saved posterior: a layer holds a number that is not finite")
            width = biases.size
        if width != len(self.names):
            raise ParameterError(f"not a saved posterior: {width} outputs for {len(self.names)} names")
