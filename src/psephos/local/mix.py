"""One epsilon for all people of a poll, or several with the shares of the people who hold each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from psephos._check import Exact, positive
from psephos.errors import ParameterError
from psephos.local.budget import device_epsilon, epsilon_text

__all__ = ["Epsilons", "Mix", "epsilons_text", "mix_of", "mix_text"]

#: One epsilon for all, or several with the shares of the people who hold them (in any unit).
Epsilons = Exact | Mapping[Exact, Exact] | Iterable[tuple[Exact, Exact]]

#: Different epsilons and their shares, which sum to 1.
Mix = tuple[tuple[Fraction, Fraction], ...]


def mix_of(epsilon: object, name: str) -> Mix:
    """Epsilons with their shares; one that occurs twice has the sum of its shares."""
    entries: list[tuple[object, object]]
    if isinstance(epsilon, Mapping):
        entries = list(epsilon.items())
    elif isinstance(epsilon, Iterable) and not isinstance(epsilon, (str, bytes)):
        entries = []
        for i, entry in enumerate(epsilon):
            pair = tuple(entry) if isinstance(entry, Sequence) and not isinstance(entry, str) else ()
            if len(pair) != 2:
                raise ParameterError(f"{name}[{i}] must be (epsilon, share), got {entry!r}")
            entries.append((pair[0], pair[1]))
    else:
        entries = [(epsilon, 1)]
    if not entries:
        raise ParameterError(f"{name} must have at least one entry, got {epsilon!r}")
    shares: dict[Fraction, Fraction] = {}
    for value, share in entries:
        key = device_epsilon(value, name)
        shares[key] = shares.get(key, Fraction(0)) + positive(share, f"{name} (share of {epsilon_text(key)})")
    total = sum(shares.values())
    return tuple((key, share / total) for key, share in shares.items())


def mix_text(mix: Mix) -> str:
    """A mix as the command line takes it."""
    if len(mix) == 1:
        return epsilon_text(mix[0][0])
    return ",".join(f"{epsilon_text(epsilon)}:{epsilon_text(share)}" for epsilon, share in mix)


def epsilons_text(epsilon: Epsilons) -> str:
    """An epsilon or a mix as the command line takes it, with shares that sum to 1.

    >>> epsilons_text(0.5), epsilons_text([(1, 600), (4, 400)])
    ('0.5', '1:0.6,4:0.4')
    """
    return mix_text(mix_of(epsilon, "epsilon"))
