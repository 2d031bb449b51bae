"""Exact laws: run a program on every outcome of its random choices, each with its rational probability."""

from collections import defaultdict
from fractions import Fraction

from psephos.local import samplers


class _Open(Exception):
    """The script has ended at a choice between outcomes of these probabilities."""

    def __init__(self, probabilities):
        self.probabilities = probabilities


class Script:
    """A source of choices that repeats a script; it stands for the bits."""

    def __init__(self, outcomes):
        self._rest = iter(outcomes)

    def choose(self, probabilities):
        possible = [i for i, p in enumerate(probabilities) if p]
        if len(possible) == 1:
            return possible[0]
        outcome = next(self._rest, None)
        if outcome is None:
            raise _Open(probabilities)
        return outcome

    def bits(self, n):
        return self.choose([Fraction(1, 2**n)] * 2**n)


def exact_law(monkeypatch, program, *, cutoff=0):
    """The law of ``program(bits)``: {value: probability}, and the mass of paths less likely than ``cutoff``.

    Bernoulli draws and uniform integers are taken as given; :func:`test_bernoulli_bit_by_bit` is about them.
    """
    monkeypatch.setattr(
        samplers, "_bernoulli", lambda a, b, script: bool(script.choose([1 - Fraction(a, b), Fraction(a, b)]))
    )
    monkeypatch.setattr(samplers, "uniform_below", lambda n, script: script.choose([Fraction(1, n)] * n))
    law, lost = defaultdict(Fraction), Fraction(0)
    stack = [((), Fraction(1))]
    while stack:
        path, mass = stack.pop()
        if mass < cutoff:
            lost += mass
            continue
        try:
            law[program(Script(path))] += mass
        except _Open as choice:
            stack += [((*path, i), mass * p) for i, p in enumerate(choice.probabilities) if p]
    monkeypatch.undo()
    assert sum(law.values()) + lost == 1
    return dict(law), lost
