"""Where random bits come from.

Releases take a :class:`SystemBits`: operating-system entropy, no seed, no buffer, no state, so that forked
workers and threads can never share a bit. Tests take :class:`InsecureBits`, which can be repeated; whatever it
touches is stamped insecure for good.
"""

from __future__ import annotations

import os
import random
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from psephos._check import check_integer

__all__ = ["BitSource", "InsecureBits", "SystemBits", "is_secure"]


class BitSource(Protocol):
    """A source of independent fair bits."""

    def bits(self, n: int) -> int:
        """``n`` fair bits as an integer in ``[0, 2**n)``."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """``n`` independent words of 64 fair bits."""


class SystemBits:
    """Entropy of the operating system, as ``os.urandom`` gives it; every call asks it afresh.

    A release that is stamped ``secure`` says that its bits came from here, and no more. Whoever runs code in the same
    process can replace ``os.urandom`` (tests that patch it, sandboxes and tools that make runs repeatable do), and then
    the bits are what the replacement gives, the stamp still reads ``secure``, and nothing is private from whoever knows
    them. The same holds for a machine whose own generator is not seeded, or is copied with the state it had.

    >>> 0 <= SystemBits().bits(10) < 1024
    True
    """

    __slots__ = ()

    def bits(self, n: int) -> int:
        """``n`` fair bits as an integer in ``[0, 2**n)``."""
        if n <= 0:
            return 0
        return int.from_bytes(os.urandom((n + 7) // 8), "little") >> (-n % 8)

    def words(self, n: int) -> NDArray[np.uint64]:
        """``n`` independent words of 64 fair bits."""
        return np.frombuffer(os.urandom(8 * n), dtype="<u8").astype(np.uint64)

    def __repr__(self) -> str:
        return "SystemBits()"


def is_secure(bits: BitSource) -> bool:
    """Whether ``bits`` may protect a release: :class:`SystemBits` itself, and nothing that claims to be like it.

    >>> is_secure(SystemBits()), is_secure(InsecureBits(seed=1))
    (True, False)
    """
    return type(bits) is SystemBits


class InsecureBits:
    """Repeatable bits for tests. A release made with them is stamped insecure, and no ledger accepts it.

    The seed and the state appear in no text, and the object cannot be pickled.

    >>> InsecureBits(seed=1).bits(64) == InsecureBits(seed=1).bits(64)
    True
    """

    __slots__ = ("_rng",)

    def __init__(self, *, seed: int) -> None:
        self._rng = random.Random(check_integer(seed, "seed", low=0))  # noqa: S311 - that is the point of it

    def bits(self, n: int) -> int:
        """``n`` bits as an integer in ``[0, 2**n)``."""
        return self._rng.getrandbits(n) if n > 0 else 0

    def words(self, n: int) -> NDArray[np.uint64]:
        """``n`` words of 64 bits."""
        return np.frombuffer(self._rng.randbytes(8 * n), dtype="<u8").astype(np.uint64)

    def __repr__(self) -> str:
        return "InsecureBits()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("InsecureBits cannot be pickled: its state must not leave the process")
