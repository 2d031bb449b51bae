"""A device has Python and nothing else."""

import os
import subprocess
import sys

import pytest

import psephos.local
from psephos.local.bits import DeviceBits, is_secure, pooled
from psephos.privacy import InsecureBits


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_importing_and_running_loads_the_standard_library_alone():
    code = """
import sys
before = set(sys.modules)  # what the interpreter's start has loaded, such as an editable install's finder
from psephos.local import *
plan = plan_person(["a", "b", "c"], epsilon=4)
report = randomise_answers(plan, ["left", None])
assert parse_report(report_line(report)) == report
plan.sentence()
roots = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(roots - sys.stdlib_module_names), sorted(n for n in sys.modules if n.startswith("psephos.")))
"""
    names = ("bits", "budget", "person", "randomized_response", "report_lines", "reports", "samplers")
    own = [f"psephos.local.{n}" for n in names]
    assert run(code) == f"['psephos'] {['psephos._check', 'psephos._json', 'psephos.errors', 'psephos.local', *own]}\n"


def test_public_names_are_documented():
    for name in psephos.local.__all__:
        value = getattr(psephos.local, name)
        assert value.__doc__ or not callable(value) or name in {"Mechanism", "Outcome", "Unit"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_n8_forked_processes_draw_different_bits():
    code = """
import os
from psephos.local import DeviceBits
bits = DeviceBits()
bits.bits(64)
if os.fork() == 0:
    print(bits.bits(128), flush=True)
    os._exit(0)
os.wait()
print(bits.bits(128))
"""
    first, second = run(code).split()
    assert first != second


def test_pooled_bits_are_those_of_the_source_each_handed_out_once(monkeypatch):
    """Read back in order they are the words that the system gave, also across refills and beyond a pool's size."""
    given = []

    def urandom(n):
        given.append(bytes(range(len(given), len(given) + n)) if n < 100 else os.urandom(n))
        return given[-1]

    source = pooled(DeviceBits())
    with monkeypatch.context() as patch:
        patch.setattr("psephos.local.bits.os.urandom", urandom)
        taken = [(n, source.bits(n)) for n in (1, 7, 100, 0, 60, 87, 200, 3)]
    word = shift = 0
    for n, value in taken:
        word |= value << shift
        shift += n
    stream = int.from_bytes(b"".join(given), "little")
    assert word == stream & ((1 << shift) - 1)
    assert source.bits(1000).bit_length() > 900


def test_only_system_bits_are_pooled():
    other = InsecureBits(seed=1)
    assert pooled(other) is other
    assert type(pooled(DeviceBits())) is not DeviceBits
    assert not is_secure(pooled(DeviceBits()))  # nothing that a caller could pass on as the system's own


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_n8_forked_devices_report_different_answers():
    code = """
import os
from psephos.local import plan_comparisons, randomise_answers
items = [str(i) for i in range(12)]
plan = plan_comparisons(items, [(a, b) for a in range(12) for b in range(a)], epsilon="0.1")
def line():
    return "".join(a.reported[0] for a in randomise_answers(plan, [None] * 66).answers)
line()
if os.fork() == 0:
    print(line(), flush=True)
    os._exit(0)
os.wait()
print(line())
"""
    first, second = run(code).split()
    assert first != second
