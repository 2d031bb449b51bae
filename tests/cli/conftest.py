"""Running the command line in the test's own folder: in this process, or in one of its own where that matters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Done, checked, run_here, run_process


@pytest.fixture
def psephos(tmp_path: Path) -> Callable[..., Done]:
    """Run ``psephos ARGS`` in this process; the exit code must be ``code`` (``None``: any)."""
    return lambda *args, code=0: checked(run_here(*args, cwd=tmp_path), code)


@pytest.fixture
def psephos_process(tmp_path: Path) -> Callable[..., Done]:
    """The same in a process of its own: start and end of the program, encodings, compiled libraries, imports."""
    return lambda *args, code=0, env=None: checked(run_process(*args, cwd=tmp_path, env=env), code)
