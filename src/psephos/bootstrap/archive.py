"""Saved samplers: one ``.npz`` archive of plain arrays and a JSON header, read without pickles.

Nothing signs a file: its guarantee is the word of whoever wrote it.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_choice, parse_delta, parse_epsilon
from psephos._json import json_text
from psephos.bootstrap.loss_protocol import check_interval
from psephos.bootstrap.rearrangement import CovariateBox
from psephos.errors import ParameterError
from psephos.privacy.guarantee import Guarantee

__all__ = [
    "Saved",
    "archive_bytes",
    "box_from_header",
    "guarantee_from_header",
    "guarantee_to_header",
    "read_archive",
    "reason_from_header",
]

_MOST_BYTES = 2**31


class Saved:
    """What can be written to a file and read again: the subclass has the bytes."""

    __slots__ = ()

    method: ClassVar[str]  #: the one name of what made it: as an option, in JSON and in a file
    reason: str | None = None  #: why it was taken, where it was not asked for
    covariate_box: CovariateBox = ()  #: ranges of covariates in which draws at several levels do not cross
    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    secure: bool

    def to_bytes(self) -> bytes:
        """The bytes of an ``.npz`` archive."""
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse of :meth:`to_bytes`. Nothing signs a file: its guarantee is the word of whoever wrote it."""
        try:
            posterior = cls._read(data)
            for name, low, high in zip(posterior.names, posterior.lower, posterior.upper, strict=True):
                check_interval((low, high), f"box of {name!r}")
            box = posterior.covariate_box
            if box and not (len(box) == len(posterior.names) and all(-1e100 <= a <= b <= 1e100 for a, b in box)):
                raise ParameterError("not a saved posterior: covariate_box must be one range a covariate")
            if type(posterior.secure) is not bool:
                raise ParameterError("not a saved posterior: secure must be true or false")
            posterior._check()
        except ParameterError:
            raise
        except Exception as error:
            raise ParameterError(f"not a saved posterior: {error}") from error
        return posterior

    @classmethod
    def _read(cls, data: bytes) -> Self:
        """What the bytes hold; any error says that they are none."""
        raise NotImplementedError

    def _check(self) -> None:
        """Refuse parts that do not belong together."""
        raise NotImplementedError

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """The inverse of :meth:`save`.

        Raises
        ------
        ParameterError
            naming the file, if it holds something else.
        """
        try:
            return cls.from_bytes(Path(path).read_bytes())
        except ParameterError as error:
            raise ParameterError(f"{str(path)!r}: {error}") from error


def archive_bytes(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of an archive.

    >>> header, arrays = read_archive(archive_bytes({"schema": "x/1"}, {"numbers": np.arange(2)}), "x/1")
    >>> header, arrays
    ({'schema': 'x/1'}, {'numbers': array([0, 1])})
    """
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(json_text(header, indent=None).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def read_archive(data: bytes, schema: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of an archive that is no larger than it may be.

    Raises
    ------
    ParameterError
        for another schema, or an archive that unpacks to more than 2 GiB; numpy's and JSON's own errors for what is no
        archive.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > _MOST_BYTES:
            raise ParameterError(f"not a saved posterior: more than {_MOST_BYTES} bytes")
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
        arrays = {name: archive[name] for name in archive.files if name != "header"}
    if header["schema"] != schema:
        raise ParameterError(f"schema must be {schema!r}, got {header['schema']!r}")
    return header, arrays


def guarantee_to_header(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as JSON takes it, with exact rationals."""
    return {
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
        "unit": guarantee.unit,
        "adjacency": guarantee.adjacency,
        "assumptions": guarantee.assumptions,
    }


def guarantee_from_header(promise: dict[str, Any]) -> Guarantee:
    """The inverse of :func:`guarantee_to_header`; what it holds is checked."""
    check_choice(promise["unit"], "unit", ("person", "comparison"))
    check_choice(promise["adjacency"], "adjacency", ("replace-one",))
    if not all(isinstance(text, str) for text in promise["assumptions"]):
        raise ParameterError("not a saved posterior: assumptions must be texts")
    return Guarantee(
        epsilon=parse_epsilon(promise["epsilon"]),
        delta=Fraction(1) if promise["delta"] == "1" else parse_delta(promise["delta"]),
        unit=promise["unit"],
        adjacency=promise["adjacency"],
        assumptions=tuple(promise["assumptions"]),
    )


def box_from_header(box: Sequence[tuple[float, float]]) -> CovariateBox:
    """Ranges of covariates."""
    return tuple((float(low), float(high)) for low, high in box)


def reason_from_header(reason: object) -> str | None:
    """Why a method was taken, as text, or ``None``."""
    if reason is not None and not isinstance(reason, str):
        raise ParameterError("not a saved posterior: reason must be text or null")
    return reason
