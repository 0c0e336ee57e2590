"""The two passes over a frontier, in parts: what one thread does of `frontier.scan` and `gather`.

Threads divide the first pass by source. The in-edges of a target are usually sorted by source, so
the sources of a range are a slice of each row, and no two threads add to the same word. They divide
the second pass by target. `bliss.kernels.threaded` puts the parts together.
"""

from __future__ import annotations

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels.compile import compiled

TINY = np.float32(1e-36)
"""Smallest contribution to a seen node's word, because 0 means "not seen". It is a normal float32,
so that it is not flushed to 0 like a subnormal one."""

_ZERO = np.float32(0)
_U0, _U1, _U5, _U31 = np.uint64(0), np.uint64(1), np.uint64(5), np.uint64(31)
_BIT = np.uint32(1)


@compiled
def add_row(
    first: np.uint64,
    last: np.uint64,
    indices: IntArray,
    shift: float,
    factor: float,
    value: FloatArray,
    table: FloatArray,
    seen: FloatArray,
    candidate: IntArray,
    count: np.uint64,
) -> np.uint64:
    """Add (shift + factor value_ij)^2 to the words of the sources of edges [first, last).

    Sources not seen before are appended to `candidate`. The arrays are those of `frontier.scan`.

    returns  the new number of candidates
    """
    if factor == 0.0:
        constant = max(np.float32(shift * shift), TINY)
        for e in range(first, last):
            node = np.uint64(indices[e])
            before = seen[node]
            candidate[count] = node
            count += np.uint64(before == _ZERO)
            seen[node] = before + constant
    elif table.size:
        for e in range(first, last):
            node = np.uint64(indices[e])
            before = seen[node]
            coefficient = shift + factor * table[np.uint64(value[e])]
            candidate[count] = node
            count += np.uint64(before == _ZERO)
            seen[node] = before + max(np.float32(coefficient * coefficient), TINY)
    else:
        for e in range(first, last):
            node = np.uint64(indices[e])
            before = seen[node]
            coefficient = shift + factor * value[e]
            candidate[count] = node
            count += np.uint64(before == _ZERO)
            seen[node] = before + max(np.float32(coefficient * coefficient), TINY)
    return count


@compiled
def scan_sources(
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    offset: FloatArray,
    slope: FloatArray,
    value: FloatArray,
    table: FloatArray,
    seen: FloatArray,
    low: int,
    high: int,
    candidate: IntArray,
    ends: IntArray,
) -> None:
    """Do the part of `frontier.scan` that concerns sources in [low, high).

    Stops at a row that is not ordered by this range, and sets ends[D] to -1.

    candidate  int[high - low + 1]  written: the sources by first appearance
    ends       int64[D + 1]         written: number of candidates before each target, and in all
    """
    count = _U0
    for t in range(dst.size):
        ends[t] = count
        i = np.uint64(dst[t])
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + _U1])
        first = _first_from(indices, first, last, low)
        last = _first_from(indices, first, last, high)
        outside = 0
        for e in range(first, last):  # without branches, so that the loop is vectorised
            outside += int(indices[e] < low) | int(indices[e] >= high)
        if outside:
            ends[t + 1 :] = count
            ends[dst.size] = -1
            ends[0] = count  # candidates whose words must be cleared
            return
        count = add_row(
            first, last, indices, offset[t], slope[t], value, table, seen, candidate, count
        )
    ends[dst.size] = count


@compiled
def _first_from(indices: IntArray, first: np.uint64, last: np.uint64, node: int) -> np.uint64:
    """Position of the first source that is at least `node` in the sorted row [first, last)."""
    while first < last:
        middle = (first + last) >> _U1
        if indices[middle] < node:
            first = middle + _U1
        else:
            last = middle
    return first


@compiled
def merge(
    ends: IntArray, begin: IntArray, parts: IntArray, candidate: IntArray, start: int, stop: int
) -> None:
    """Put the candidates of all ranges in order, for the targets in [start, stop).

    ends       int64[P, D + 1]  of `scan_sources`
    begin      int64[P]         first candidate of each range in `parts`
    candidate  int[C]           written, after the targets themselves
    """
    count = np.uint64(ends.shape[1] - 1)
    for p in range(ends.shape[0]):
        count += np.uint64(ends[p, start])
    for t in range(start, stop):
        for p in range(ends.shape[0]):
            for c in range(begin[p] + ends[p, t], begin[p] + ends[p, t + 1]):
                candidate[count] = parts[np.uint64(c)]
                count += _U1


@compiled
def mark_sources(source: IntArray, bits: IntArray, position: IntArray) -> None:
    """Set the bit and the position of each source."""
    for s in range(source.size):
        node = np.uint64(source[s])
        position[node] = s
        bits[node >> _U5] |= _BIT << np.uint32(node & _U31)


@compiled
def find_kept(
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    bits: IntArray,
    scratch: IntArray,
    kept: IntArray,
    start: int,
    stop: int,
) -> None:
    """Find the edges of the targets in [start, stop) whose source has its bit set.

    scratch  int64[edges of these targets]  written: the edges
    kept     int64[D]                       written: kept edges of each target
    """
    count = _U0
    for t in range(start, stop):
        before = count
        i = np.uint64(dst[t])
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + _U1])):
            node = np.uint64(indices[e])
            scratch[count] = e
            count += np.uint64((bits[node >> _U5] >> np.uint32(node & _U31)) & _BIT)
        kept[t] = count - before


@compiled
def write_kept(
    indices: IntArray, position: IntArray, scratch: IntArray, row: IntArray, edge: IntArray
) -> None:
    """Copy kept edges, and look up the positions of their sources. scratch, row, edge int64[N]."""
    for kept in range(row.size):
        edge[kept] = scratch[kept]
        row[kept] = position[np.uint64(indices[np.uint64(scratch[kept])])]
