"""The kernels of links do what their plain twins do."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from bliss.arrays import NO_IDS, NOTHING
from bliss.kernels import links
from bliss.kernels.coins import COINS, coin
from bliss.rng import derive_key
from tests.kernels.test_subgraph_kernels import Case
from tests.twins import links as twins

cases = pytest.mark.parametrize("seed", range(12))


def test_every_kernel_has_a_twin():
    kernels = {
        name
        for name, member in inspect.getmembers(links)
        if hasattr(member, "py_func") and name not in ("coin", "random_bits")
    }
    assert kernels - set(dir(twins)) == set()
    assert kernels


@cases
def test_edges_of_pairs_agree_in_sorted_and_in_shuffled_rows(seed):
    case = Case(seed)
    source, target = case.random.integers(0, case.nodes, (2, 60))
    target[0] = np.flatnonzero(np.diff(case.indptr))[0]
    source[0] = case.indices[case.indptr[target[0]]]  # at least one edge
    shuffled = case.indices.copy()
    for i in range(case.nodes):
        case.random.shuffle(shuffled[case.indptr[i] : case.indptr[i + 1]])
    for indices in (case.indices, shuffled):
        is_sorted = twins.first_unsorted(case.indptr, indices) == -1
        assert links.first_unsorted(case.indptr, indices) == twins.first_unsorted(
            case.indptr, indices
        )
        ours = links.edges_of_pairs(case.indptr, indices, is_sorted, source, target)
        theirs = twins.edges_of_pairs(case.indptr, indices, is_sorted, source, target)
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
        assert ours[0].size


@cases
def test_edges_of_repeated_pairs_agree(seed):
    case = Case(seed)
    codes = np.sort(case.random.integers(0, case.nodes**2, 5 * case.nodes))
    ours = links.edges_of_codes(case.indptr, case.indices, codes)
    theirs = twins.edges_of_codes(case.indptr, case.indices, codes)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@cases
def test_rows_without_hidden_edges_agree(seed):
    case = Case(seed)
    count = case.random.integers(0, case.indices.size + 1)
    edge = np.sort(case.random.permutation(case.indices.size)[:count])
    node = np.unique(np.searchsorted(case.indptr, edge, side="right") - 1)
    dst = case.random.permutation(case.nodes)
    ours = links.split_rows(case.indptr, dst, node, edge)
    for one, other in zip(ours, twins.split_rows(case.indptr, dst, node, edge), strict=True):
        np.testing.assert_array_equal(one, other)


@cases
@pytest.mark.parametrize("keeps_source", [True, False])
def test_negatives_agree(seed, keeps_source):
    case = Case(seed)
    place, source = case.random.integers(0, case.nodes, (2, 40))
    ladder = np.cumsum(case.random.random(case.nodes) * (case.random.random(case.nodes) < 0.8))
    ladder = ladder if ladder[-1] else NOTHING
    known = np.unique(case.random.integers(0, case.nodes**2, 30))
    arguments = (
        derive_key(seed), place, np.arange(40) % 3, source if keeps_source else NO_IDS,
        NOTHING, ladder, case.indptr, case.indices,
    )  # fmt: skip
    for is_sorted in (True, False):  # a scan finds what a binary search finds
        ours = links.draw_negatives(*arguments, is_sorted, known, 5, NO_IDS, NO_IDS)
        theirs = twins.draw_negatives(*arguments, is_sorted, known, 5, NO_IDS, NO_IDS)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    rows = [case.random.integers(0, 9, size) for size in np.diff(case.indptr)]
    time = np.concatenate([NO_IDS, *map(np.sort, rows)])
    timed = False, known, 5, time, case.random.integers(-1, 9, 40)
    ours, theirs = (module.draw_negatives(*arguments, *timed) for module in (links, twins))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_node_without_weight_is_never_drawn():
    key = derive_key(3)
    drawn = coin(key, np.uint64(0))
    ladder = np.array([drawn, drawn, drawn + 1, COINS])  # the coin falls on the edge of a step
    assert links.draw_node(key, np.uint64(0), ladder, 4) == 2
    assert twins.draw_node(key, 0, ladder, 4) == 2


@cases
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counts_of_better_candidates_agree(seed, dtype):
    random = np.random.default_rng(seed)
    scores = random.integers(0, 5, (4, 20)).astype(dtype)  # many ties
    scores[random.random(scores.shape) < 0.1] = np.nan
    row, target = random.integers(0, 4, 15), random.integers(3, 23, 15)
    known = np.concatenate([random.permutation(30)[:6] for _ in range(4)])
    first = 3
    value = scores[row, target - first]
    counts, twin = np.ones((2, 15), np.int64), np.ones((2, 15), np.int64)
    links.count_above(scores, first, row, target, value, np.arange(5) * 6, known, *counts)
    twins.count_above(scores, first, row, target, value, np.arange(5) * 6, known, *twin)
    np.testing.assert_array_equal(counts, twin)
    assert counts.max() > 1
