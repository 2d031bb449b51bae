"""Running the command line as its users do: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def psephos(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``python -m psephos ARGS`` in the test's own folder; the exit code must be ``code`` (``None``: any)."""

    def psephos(
        *args: str | Path | bytes, code: int | None = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PYTHONPATH": str(SRC), "PYTHONIOENCODING": "utf-8", **(env or {})}
        command = [sys.executable, "-m", "psephos", *(a if isinstance(a, bytes) else str(a) for a in args)]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, timeout=1200, check=False)
        out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace")
        assert "Traceback" not in err, err
        assert code in {None, done.returncode}, f"exit code {done.returncode}, wanted {code}\n{out}\n{err}"
        if code:
            assert out == ""
        return subprocess.CompletedProcess(command, done.returncode, out, err)

    return psephos
