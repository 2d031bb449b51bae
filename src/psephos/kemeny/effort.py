"""How much work a solver may do, counted and not timed, so that no answer depends on the machine or its load.

Work is counted in steps: what the solver is about to do or did, by numbers that follow from its input alone (items,
rows, pivots, moves), each at about what it takes in nanoseconds on an ordinary core. A unit of effort is
:data:`STEPS` of them, so about a second. The clock is an outer guard, and whoever it cut knows it.
"""

from __future__ import annotations

import math
import time

from psephos._check import check_real

__all__ = ["DEFAULT_EFFORT", "DEFAULT_GUARD", "STEPS", "Effort", "check_effort"]

STEPS = 10**9  # of a unit
DEFAULT_EFFORT = 60.0  # units
DEFAULT_GUARD = 3600.0  # seconds
_MOST = 1e12  # units: longer than anybody waits


class Effort:
    """Work that is left, and the guard.

    Parameters
    ----------
    units
        >= 0, of effort.
    seconds
        >= 0, of wall-clock time: the guard. Its clock starts when it is first looked at, so that what a caller did
        before, such as reading data, has no say in where it cuts.
    """

    __slots__ = ("_deadline", "_parent", "left", "total")

    def __init__(self, units: float, seconds: float = math.inf) -> None:
        self.total = self.left = int(min(units, _MOST) * STEPS)
        self._deadline: _Deadline = _Deadline(seconds)
        self._parent: Effort | None = None

    def part(self, steps: int) -> Effort:
        """At most so many of the steps left, which count here too; the guard is the same."""
        part = Effort(0.0)
        part.total = part.left = max(0, min(steps, self.left))
        part._deadline, part._parent = self._deadline, self
        return part

    def spend(self, steps: int) -> None:
        """Count work."""
        self.left -= steps
        if self._parent is not None:
            self._parent.spend(steps)

    @property
    def spent(self) -> int:
        """Steps so far."""
        return self.total - self.left

    @property
    def ended(self) -> bool:
        """Whether the work or the guard has run out: what is under way must stop."""
        return self.guard_passed or self.left <= 0

    @property
    def guard_passed(self) -> bool:
        """Whether the guard has run out: work that was counted before it began looks at nothing else."""
        return self._deadline.passed()

    @property
    def seconds_left(self) -> float:
        """Until the guard cuts."""
        return self._deadline.left()

    @property
    def guard_cut(self) -> bool:
        """Whether the guard was found to have run out: another run may then answer otherwise."""
        return self._deadline.met


class _Deadline:
    """A time after the first look at the clock, and whether it was met."""

    __slots__ = ("_reading", "met", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._reading: float | None = None
        self.met = False

    def left(self) -> float:
        now = time.monotonic()
        if self._reading is None:
            self._reading = now + self.seconds
        return max(0.0, self._reading - now)

    def passed(self) -> bool:
        self.met = self.met or self.left() <= 0
        return self.met


def check_effort(effort: object, time_limit: object) -> Effort:
    """An effort that starts now, of a user's two numbers >= 0."""
    units = check_real(effort, "effort", low=0.0)
    return Effort(units, check_real(time_limit, "time_limit", low=0.0))
