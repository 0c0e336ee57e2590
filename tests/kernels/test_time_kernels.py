"""The kernels of time do what their twins do."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pytest

from bliss.arrays import NO_IDS
from bliss.kernels import times
from bliss.kernels.times import ALWAYS
from tests.twins import times as twins

cases = pytest.mark.parametrize("seed", range(20))


def test_every_kernel_has_a_twin():
    kernels = {name for name, one in inspect.getmembers(times) if hasattr(one, "py_func")}
    own = {name for name in kernels if getattr(times, name).__module__ == times.__name__}
    assert {name for name in own if not name.startswith("_")} <= set(dir(twins))


def ranges(random):
    """Ranges of edges that are sorted by time, some without a time, and targets' times."""
    degree = random.integers(0, 7, 12)
    indptr = np.concatenate([[0], np.cumsum(degree)])
    time = random.integers(-3, 6, indptr[-1])
    time[random.random(time.size) < 0.2] = ALWAYS
    for first, last in pairwise(indptr):
        time[first:last].sort()
    return indptr[:-1].copy(), indptr[1:].copy(), time, random.integers(-4, 8, 12)


def listed(pointer, start, stop, degree):
    """Edges of each group, from ranges; checks that degrees are their number."""
    groups = []
    for g in range(pointer.size - 1):
        parts = [np.arange(start[r], stop[r]) for r in range(*pointer[g : g + 2])]
        groups.append(np.concatenate([NO_IDS, *parts]))
        assert groups[-1].size == degree[g]
    return groups


@cases
@pytest.mark.parametrize("window", [None, 1, 3])
def test_ranges_agree(seed, window):
    random = np.random.default_rng(seed)
    start, stop, time, before = ranges(random)
    after = NO_IDS if window is None else before - window
    ours = times.cut_ranges(start, stop, time, before, after)
    theirs = twins.cut_ranges(start, stop, time, before, after)
    for one, other in zip(listed(*ours), theirs, strict=True):
        np.testing.assert_array_equal(one, other)
    edge = np.flatnonzero(random.random(time.size) < 0.4)
    split = times.hide_edges(*ours[:3], edge)
    for one, other in zip(listed(*split), twins.hide_edges(*ours[:3], edge), strict=True):
        np.testing.assert_array_equal(one, other)


@cases
@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("window", [None, 4])
def test_sources_agree_and_never_see_later_than_their_targets(seed, is_shared, window):
    random = np.random.default_rng(seed)
    place, before = random.integers(0, 6, 8), random.integers(0, 5, 8)
    after = NO_IDS if window is None else before - window
    count = random.integers(0, 6, 8)
    indptr = np.concatenate([[0], np.cumsum(count)])
    row = random.integers(0, 9, indptr[-1])
    given = place, before, after, indptr
    if is_shared:
        ours, twin = times.share_sources(*given, row, 9), twins.share_sources(*given, row)
    else:
        edge, number = np.arange(row.size)[::-1].copy(), np.zeros(9, np.int32)
        order = np.argsort(before, kind="stable")
        ours = times.pair_sources(row[::-1].astype(np.int32), *given, edge, order, number)
        twin = twins.pair_sources(*given, row)
        assert not number.any()
    for one, other in zip(ours, twin, strict=True):
        np.testing.assert_array_equal(one, other)
    node, new_row, until, since = ours
    target = np.repeat(np.arange(8), count)
    np.testing.assert_array_equal(node[new_row], row)
    np.testing.assert_array_equal(until[:8], before)  # a target keeps its own time
    assert (until[new_row] <= before[target]).all()
    if window is not None:
        assert (since[new_row] >= after[target]).all()
    if not is_shared:
        np.testing.assert_array_equal(until[new_row], before[target])
