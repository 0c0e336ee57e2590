"""The second pass over a frontier, divided among threads by target."""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import IntArray
from bliss.kernels import frontier, pool
from bliss.kernels.compile import compiled

_U0, _U1, _U5, _U31 = np.uint64(0), np.uint64(1), np.uint64(5), np.uint64(31)
_BIT = np.uint32(1)


def gather(
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    source: IntArray,
    bits: IntArray,
    position: IntArray,
    scratch: IntArray,
) -> tuple[Any, Any, Any]:
    """`frontier.gather` on several threads, with the same result.

    Each thread finds the kept edges of some targets. Only then is their number known, and threads
    copy them to their places.
    """
    if pool.threads() == 1:
        return frontier.gather(indptr, indices, dst, source, bits, position, scratch)
    starts = pool.starts(indptr, dst)
    parts = pool.shares(starts, 1.0)
    if len(parts) == 1:
        return frontier.gather(indptr, indices, dst, source, bits, position, scratch)
    kept = np.empty(dst.size, np.int64)

    def find(start: int, stop: int) -> None:
        own = scratch[starts[start] : starts[stop]]
        _find(indptr, indices, dst[start:stop], bits, own, kept[start:stop])

    try:
        _mark(source, bits, position)
        pool.run(find, parts)
    finally:
        bits[source >> 5] = 0  # also after an interrupt
    kept_indptr = np.concatenate([[0], np.cumsum(kept)])
    row, edge = np.empty((2, kept_indptr[-1]), np.int64)

    def write(start: int, stop: int) -> None:
        to = slice(kept_indptr[start], kept_indptr[stop])
        found = scratch[starts[start] : starts[start] + to.stop - to.start]
        _write(indices, position, found, row[to], edge[to])

    pool.run(write, parts)
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
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    bits: IntArray,
    scratch: IntArray,
    kept: IntArray,
) -> None:
    """Write the edges of some targets whose source has its bit set, and their numbers.

    scratch  int64[edges of these targets]
    kept     int64[D]
    """
    count = _U0
    for t in range(dst.size):
        before = count
        i = np.uint64(dst[t])
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + _U1])):
            node = np.uint64(indices[e])
            scratch[count] = e
            count += np.uint64((bits[node >> _U5] >> np.uint32(node & _U31)) & _BIT)
        kept[t] = count - before


@compiled
def _write(
    indices: IntArray, position: IntArray, scratch: IntArray, row: IntArray, edge: IntArray
) -> None:
    """Copy kept edges, and look up the positions of their sources. scratch, row, edge int64[N]."""
    for kept in range(row.size):
        edge[kept] = scratch[kept]
        row[kept] = position[np.uint64(indices[np.uint64(scratch[kept])])]
