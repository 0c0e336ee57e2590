"""The second pass over a frontier: the edges of kept sources. Threads divide it by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import IntArray
from bliss.kernels import pool
from bliss.kernels.compile import compiled
from bliss.kernels.frontier import CHUNK

_U0, _U1, _U5, _U31 = np.uint64(0), np.uint64(1), np.uint64(5), np.uint64(31)
_BIT = np.uint32(1)


def gather(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    source: IntArray,
    bits: IntArray,
    position: IntArray,
    scratch: IntArray,
) -> tuple[Any, Any, Any]:
    """Collect the edges of the frontier whose source was kept.

    Each thread finds the kept edges of some groups. Only then is their number known, and threads
    copy them to their places.

    pointer, start, stop  see `bliss.kernels.frontier`
    source                int64[S]
    bits                  uint32[V // 32 + 1]  all zero on entry and on return
    position              int[V]               overwritten for the sources
    scratch               int64[F]             F: number of edges of the frontier
    returns               kept_indptr int64[G + 1], row (position in source) and edge int64[E']
    """
    ranges = pointer, start, stop
    parts = pool.group_ranges(*ranges, 1.0)
    if len(parts) == 1:
        return _gather_alone(*ranges, indices, source, bits, position, scratch)
    place = pool.starts(*ranges)
    kept_indptr = np.zeros(pointer.size, np.int64)

    def find(first: int, last: int) -> None:
        own, ends = scratch[place[first] : place[last]], kept_indptr[first + 1 : last + 1]
        _find(pointer[first : last + 1], start, stop, indices, bits, own, ends)

    try:
        _mark(source, bits, position)
        pool.run(find, parts)
    finally:
        bits[source >> 5] = 0  # also after an interrupt
    for first, last in parts:
        kept_indptr[first + 1 : last + 1] += kept_indptr[first]
    row, edge = np.empty((2, kept_indptr[-1]), np.int64)

    def write(first: int, last: int) -> None:
        to = slice(kept_indptr[first], kept_indptr[last])
        own = scratch[place[first] : place[first] + to.stop - to.start]
        _write(indices, position, own, row[to], edge[to])

    pool.run(write, parts)
    return kept_indptr, row, edge


@compiled
def _gather_alone(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    source: IntArray,
    bits: IntArray,
    position: IntArray,
    scratch: IntArray,
) -> tuple[Any, Any, Any]:
    """`gather` in one thread. A single kernel, because calls would dominate small layers."""
    _mark(source, bits, position)
    kept_indptr = np.zeros(pointer.size, np.int64)
    _find(pointer, start, stop, indices, bits, scratch, kept_indptr[1:])
    for s in range(source.size):
        bits[np.uint64(source[s]) >> _U5] = 0
    row = np.empty(kept_indptr[-1], np.int64)
    edge = np.empty(kept_indptr[-1], np.int64)
    _write(indices, position, scratch, row, edge)
    return kept_indptr, row, edge


@compiled
def _mark(source: IntArray, bits: IntArray, position: IntArray) -> None:
    """Set the bit and the position of each source."""
    for s in range(source.size):
        node = np.uint64(source[s])
        position[node] = s
        bits[node >> _U5] |= _BIT << np.uint32(node & _U31)


@compiled
def _find(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    bits: IntArray,
    scratch: IntArray,
    ends: IntArray,
) -> None:
    """Write the edges of some groups whose source has its bit set, and how many there are.

    scratch  int64[edges of these groups]
    ends     int64[G]  kept edges up to the end of each group
    """
    count = _U0
    before = np.empty(CHUNK + 1, np.int64)  # kept edges before each edge of joined groups
    g, groups = _U0, np.uint64(ends.size)
    while g < groups:
        joined = _adjoining(pointer, start, stop, g)
        r = np.uint64(pointer[g])
        if joined > _U1:
            first = np.uint64(start[r])
            edges = np.uint64(stop[r + joined - _U1]) - first
            for k in range(edges):
                node = np.uint64(indices[first + k])
                scratch[count] = first + k
                before[k] = count
                count += np.uint64((bits[node >> _U5] >> np.uint32(node & _U31)) & _BIT)
            before[edges] = count
            for h in range(joined):
                ends[g + h] = before[np.uint64(stop[r + h]) - first]
        else:
            while r < np.uint64(pointer[g + _U1]):
                for e in range(np.uint64(start[r]), np.uint64(stop[r])):
                    node = np.uint64(indices[e])
                    scratch[count] = e
                    count += np.uint64((bits[node >> _U5] >> np.uint32(node & _U31)) & _BIT)
                r += _U1
            ends[g] = count
        g += joined


@compiled
def _adjoining(pointer: IntArray, start: IntArray, stop: IntArray, g: np.uint64) -> np.uint64:
    """Number of groups from g on, each of one range, whose edges follow each other; at least 1.

    They are groups of a target under several relations, with up to CHUNK edges in all. One loop
    passes over all their edges, because the end of a loop over a few edges is not foreseen by the
    processor and costs as much as the edges.
    """
    groups, r = np.uint64(pointer.size - 1), np.uint64(pointer[g])
    last = g + _U1
    while (
        last < groups
        and np.uint64(pointer[last]) - r == last - g
        and np.uint64(pointer[last + _U1]) - r == last - g + _U1
        and start[r + last - g] == stop[r + last - g - _U1]
        and stop[r + last - g] - start[r] <= CHUNK
    ):
        last += _U1
    return last - g


@compiled
def _write(
    indices: IntArray, position: IntArray, scratch: IntArray, row: IntArray, edge: IntArray
) -> None:
    """Copy kept edges, and look up the positions of their sources. scratch, row, edge int64[N]."""
    for kept in range(row.size):
        edge[kept] = scratch[kept]
        row[kept] = position[np.uint64(indices[np.uint64(scratch[kept])])]
