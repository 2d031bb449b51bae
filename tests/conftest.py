"""Fixtures that several folders share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No verdict may depend on how fast or how busy the machine is.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

if "PYTEST_XDIST_WORKER" in os.environ:  # a worker a core: before numpy or JAX is loaded, no further threads each
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Write text (as UTF-8, line endings as they are) or bytes to a file of that name."""

    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put
