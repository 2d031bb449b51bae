"""The simulator of reports that the experiments have, for benchmarks."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "experiments" / "local_ranking"))

from simulated_reports import randomise_columns, simulate_population  # found by the line above

__all__ = ["randomise_columns", "simulate_population"]
