"""The second pass over a frontier: the edges of kept sources. Threads divide it by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import IntArray
from bliss.kernels import pool
from bliss.kernels.compile import compiled

_U0, _U5, _U31 = np.uint64(0), np.uint64(5), np.uint64(31)
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
    kept = np.empty(pointer.size - 1, np.int64)

    def find(first: int, last: int) -> None:
        own = scratch[place[first] : place[last]]
        _find(pointer[first : last + 1], start, stop, indices, bits, own, kept[first:last])

    try:
        _mark(source, bits, position)
        pool.run(find, parts)
    finally:
        bits[source >> 5] = 0  # also after an interrupt
    kept_indptr = np.concatenate([[0], np.cumsum(kept)])
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
    kept = np.empty(pointer.size - 1, np.int64)
    _find(pointer, start, stop, indices, bits, scratch, kept)
    for s in range(source.size):
        bits[np.uint64(source[s]) >> _U5] = 0
    kept_indptr = np.zeros(pointer.size, np.int64)
    for g in range(kept.size):
        kept_indptr[g + 1] = kept_indptr[g] + kept[g]
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
    kept: IntArray,
) -> None:
    """Write the edges of some groups whose source has its bit set, and their numbers.

    scratch  int64[edges of these groups]
    kept     int64[G]
    """
    count = _U0
    for g in range(kept.size):
        before = count
        for r in range(np.uint64(pointer[g]), np.uint64(pointer[g + 1])):
            for e in range(np.uint64(start[r]), np.uint64(stop[r])):
                node = np.uint64(indices[e])
                scratch[count] = e
                count += np.uint64((bits[node >> _U5] >> np.uint32(node & _U31)) & _BIT)
        kept[g] = count - before


@compiled
def _write(
    indices: IntArray, position: IntArray, scratch: IntArray, row: IntArray, edge: IntArray
) -> None:
    """Copy kept edges, and look up the positions of their sources. scratch, row, edge int64[N]."""
    for kept in range(row.size):
        edge[kept] = scratch[kept]
        row[kept] = position[np.uint64(indices[np.uint64(scratch[kept])])]
