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

    def yes(self, p):
        return bool(self.choose([1 - p, p]))

    def bits(self, n):
        return self.choose([Fraction(1, 2**n)] * 2**n)


def exact_law(monkeypatch, program, *, cutoff=0):
    """The law of ``program(bits)``: {value: probability}, and the mass of paths less likely than ``cutoff``.

    Bernoulli draws of a ratio and uniform integers are taken as given: they can be checked word by word.
    """
    with monkeypatch.context() as patch:
        patch.setattr(samplers, "_bernoulli", lambda a, b, script: script.yes(Fraction(a, b)))
        patch.setattr(samplers, "uniform_below", lambda n, script: script.choose([Fraction(1, n)] * n))
        return _law(program, cutoff)


def _law(program, cutoff=0):
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
    assert sum(law.values()) + lost == 1
    return dict(law), lost


def enclosed_exp(monkeypatch, x):
    """Bounds of the probability with which ``bernoulli_exp(x)`` says yes, a relative 1e-17 apart or less.

    The factors of at most one are enumerated; then the loop over factors is, with the factors taken as given.
    """
    factors = {}
    for ratio in {(1, 1), (x - max(0, -(-x // 1) - 1)).as_integer_ratio()}:
        law, lost = exact_law(
            monkeypatch, lambda bits, r=ratio: samplers._exp_of_fraction(*r, bits), cutoff=Fraction(1, 10**21)
        )
        factors[ratio] = (law.get(True, Fraction(0)), law.get(True, Fraction(0)) + lost)
    bounds = []
    for end in (0, 1):
        with monkeypatch.context() as patch:
            patch.setattr(samplers, "_exp_of_fraction", lambda a, b, script, end=end: script.yes(factors[a, b][end]))
            bounds.append(_law(lambda bits: samplers.bernoulli_exp(x, bits))[0][True])
    return bounds


class _Again(Exception):
    """A second round has begun."""


def odds(monkeypatch, draw, epsilon, e):
    """What one round of ``flip`` or ``shift`` says, with exp(-epsilon) taken to be ``e``: {word: probability}.

    Rounds are independent and alike, so that the words of a whole draw have these odds.
    """

    def program(script):
        begun = []

        def begin(n):
            if begun:
                raise _Again
            begun.append(n)
            return script.choose([Fraction(1, n)] * n)

        script.bits = lambda n: begin(2**n)
        with monkeypatch.context() as patch:
            patch.setattr(samplers, "uniform_below", lambda n, _bits: begin(n))
            patch.setattr(samplers, "bernoulli_exp", lambda x, _bits: script.yes(e) if x == epsilon else None)
            try:
                return draw(epsilon, script)
            except _Again:
                return "again"

    law, _ = _law(program)
    law.pop("again", None)
    return law
