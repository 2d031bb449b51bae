"""Consensus orders of least Kemeny cost, each with a lower bound proved in exact arithmetic."""

from psephos.kemeny.cost import kemeny_cost
from psephos.kemeny.result import KemenyResult
from psephos.kemeny.solve import solve

__all__ = ["KemenyResult", "kemeny_cost", "solve"]
