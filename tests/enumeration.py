"""Every ballot of a few items, for tests that enumerate neighbours."""

import itertools

from psephos import Ballot


def weak_orders(items):
    """All weak orders of the given items, as tuples of groups."""
    if not items:
        yield ()
    for size in range(1, len(items) + 1):
        for top in itertools.combinations(items, size):
            for tail in weak_orders(tuple(i for i in items if i not in top)):
                yield (top, *tail)


def all_ballots(m, kind="truncated"):
    """All strict, all complete with ties, or (``truncated``) all ballots of m items, the empty one included."""
    items = tuple(range(m))
    if kind == "strict":
        return [Ballot.strict(order) for order in itertools.permutations(items)]
    if kind == "tied":
        return [Ballot(groups) for groups in weak_orders(items)]
    subsets = itertools.chain.from_iterable(itertools.combinations(items, k) for k in range(m + 1))
    return [Ballot(groups) for subset in subsets for groups in weak_orders(subset)]
