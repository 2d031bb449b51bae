"""Where a device's random bits come from: operating-system entropy, without numpy.

Every function here takes any source that has ``bits(n)``; a report says ``secure`` only if all of its bits came from
the operating system.
"""

from __future__ import annotations

import os
import sys
from typing import Protocol

__all__ = ["BitSource", "DeviceBits", "is_secure", "pooled"]

_POOL = 256


class BitSource(Protocol):
    """A source of independent fair bits."""

    def bits(self, n: int) -> int:
        """``n`` fair bits as an integer in ``[0, 2**n)``."""


class DeviceBits:
    """Entropy of the operating system: no seed, no buffer, no state; every call asks afresh.

    ``secure`` in a report is as true as ``os.urandom`` is: code in the same process that replaces it knows every bit.

    >>> 0 <= DeviceBits().bits(10) < 1024
    True
    """

    __slots__ = ()

    def bits(self, n: int) -> int:
        """``n`` fair bits as an integer in ``[0, 2**n)``."""
        if n <= 0:
            return 0
        return int.from_bytes(os.urandom((n + 7) // 8), "little") >> (-n % 8)

    def __repr__(self) -> str:
        return "DeviceBits()"


class _Pool:
    """Bits of a source, taken many at a time and handed out one after the other, each once."""

    __slots__ = ("_left", "_pool", "_source")

    def __init__(self, source: BitSource) -> None:
        self._source = source
        self._pool = self._left = 0

    def bits(self, n: int) -> int:
        if n > self._left:
            self._pool |= self._source.bits(_POOL) << self._left
            self._left += _POOL
            if n > self._left:
                return self._source.bits(n)
        value = self._pool & ((1 << n) - 1)
        self._pool >>= n
        self._left -= n
        return value


def pooled(bits: BitSource) -> BitSource:
    """A source with the same law that asks the operating system less often; other sources are returned as they are.

    For the time of one call only: whoever kept it across a fork would hand out the same bits twice.
    """
    return _Pool(bits) if type(bits) is DeviceBits else bits


def is_secure(bits: BitSource) -> bool:
    """Whether ``bits`` may protect a report: this module's source or :class:`psephos.privacy.SystemBits` themselves.

    A subclass, or anything else that claims to be like them, may not.

    >>> is_secure(DeviceBits())
    True
    """
    if type(bits) is DeviceBits:
        return True
    holder = sys.modules.get("psephos.privacy.bits")  # it needs numpy; whoever has such bits has loaded it
    return holder is not None and type(bits) is holder.SystemBits
