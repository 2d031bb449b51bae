"""Small files for the readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from psephos.errors import DataError


@pytest.fixture
def refusal() -> Callable[..., DataError]:
    """The error with which a reader refuses a file; it must name the file, and the line if one is given."""

    def refusal(reader: Callable[..., object], path: Path, *, line: int | None = None, **options: object) -> DataError:
        with pytest.raises(DataError) as caught:
            reader(path, **options)
        error = caught.value
        assert error.source == path.name
        if line is not None:
            assert error.line == line
            assert str(error).startswith(f"{path.name}:{line}: ")
        return error

    return refusal
