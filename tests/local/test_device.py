"""A device has Python and nothing else."""

import os
import subprocess
import sys

import pytest

import psephos.local


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
    own = [f"psephos.local.{n}" for n in ("bits", "budget", "person", "randomized_response", "reports", "samplers")]
    assert run(code) == f"['psephos'] {['psephos._check', 'psephos.errors', 'psephos.local', *own]}\n"


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
