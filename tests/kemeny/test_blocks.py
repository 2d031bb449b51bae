import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from psephos.kemeny.blocks import differing_by_extension, strict_blocks, transitive_closure, weak_blocks


def signs_of(m, values):
    signs = np.zeros((m, m), dtype=np.int8)
    signs[np.triu_indices(m, 1)] = values
    return signs - signs.T


SIGNS = st.integers(1, 8).flatmap(
    lambda m: st.lists(st.integers(-1, 1), min_size=m * (m - 1) // 2, max_size=m * (m - 1) // 2).map(
        lambda values: signs_of(m, values)
    )
)


def components(arcs):
    reach = transitive_closure(arcs)
    return {frozenset(np.flatnonzero(reach[i] & reach[:, i]).tolist()) | {i} for i in range(len(arcs))}


@given(SIGNS)
def test_blocks_are_strong_components_in_order(signs):
    for blocks, arcs, least in ((strict_blocks(signs), signs >= 0, 1), (weak_blocks(signs), signs > 0, 0)):
        assert {frozenset(block.tolist()) for block in blocks} == components(arcs)
        for first, second in itertools.combinations(blocks, 2):
            assert (signs[np.ix_(first, second)] >= least).all()


@given(SIGNS)
def test_closure_is_the_smallest_transitive_relation(signs):
    arcs = signs > 0
    reach = transitive_closure(arcs)
    expected, power = arcs.copy(), arcs.astype(int)
    for _ in range(len(arcs)):
        power = ((power @ arcs.astype(int)) > 0).astype(int)
        expected |= power > 0
    assert (reach == expected).all()


def test_ties_between_parts():
    # 0 beats 1, 2 beats 3, all else tied: four items, all cross pairs may go either way
    signs = signs_of(4, [1, 0, 0, 0, 0, 1])
    differing = differing_by_extension(signs, weak_blocks(signs))
    assert np.argwhere(np.triu(differing)).tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]
