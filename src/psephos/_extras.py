"""Loading optional dependencies, with an error that says how to install them."""

from __future__ import annotations

import importlib
from types import ModuleType

from psephos.errors import MissingExtraError

__all__ = ["load_extra"]


def load_extra(module: str, extra: str) -> ModuleType:
    """Import ``module``, which the extra ``extra`` provides.

    Raises
    ------
    MissingExtraError
        naming the ``pip install`` line, if the module is absent.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{module} is not installed: pip install 'psephos[{extra}]'") from error
