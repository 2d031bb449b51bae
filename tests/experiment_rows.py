"""What tests of experiments share: modules of a folder that is no package, stored rows, and rounded numbers."""

import csv
import importlib
import math
import sys
from contextlib import contextmanager


@contextmanager
def modules_of(folder):
    """Import modules of ``folder`` by name; they are forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    yield importlib.import_module
    sys.path.remove(str(folder))
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def rows_of(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


def close(found, stated):
    """Equal, but for the last digit of a rounded number."""
    if isinstance(stated, dict):
        return found.keys() == stated.keys() and all(close(found[key], stated[key]) for key in stated)
    if isinstance(stated, list):
        return len(found) == len(stated) and all(close(a, b) for a, b in zip(found, stated, strict=True))
    if isinstance(stated, float):
        return math.isclose(found, stated, rel_tol=1e-6, abs_tol=1.01 * 10.0 ** -len(repr(stated).partition(".")[2]))
    return found == stated
