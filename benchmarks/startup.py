"""Time of whole commands: medians of five, against an empty interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from timing import median_seconds, report

SUSHI = Path(__file__).parent.parent / "tests" / "data" / "sushi.soc"
COMMANDS = {
    "an empty interpreter": ["-c", "pass"],
    "import psephos": ["-c", "import psephos"],
    "psephos --help": ["-m", "psephos", "--help"],
    "psephos --version": ["-m", "psephos", "--version"],
    "psephos consensus sushi.soc": ["-m", "psephos", "consensus", str(SUSHI), "--epsilon", "1", "--delta", "1e-6"],
}


def main() -> None:
    rows: list[list[object]] = []
    base = 0.0
    for name, arguments in COMMANDS.items():
        command = [sys.executable, *arguments]
        seconds = median_seconds(lambda command=command: subprocess.run(command, check=True, capture_output=True))
        base = base or seconds
        rows.append([name, f"{seconds:.3f}", f"{seconds / base:.1f}"])
    report("startup", ["command", "seconds", "times an empty interpreter"], rows)


if __name__ == "__main__":
    main()
