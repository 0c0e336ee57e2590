"""Kernels of `frontier` on several threads, with the same results; small inputs stay on one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels import frontier, pool, rows

MOST_RANGES = 16
"""Most ranges of sources that a scan is divided into, and room needed in `spare` beside V."""
_SAMPLE = 512


def scan(
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    offset: FloatArray,
    slope: FloatArray,
    value: FloatArray,
    table: FloatArray,
    seen: FloatArray,
    candidate: IntArray,
    spare: IntArray,
) -> tuple[int, int]:
    """`frontier.scan`, divided by ranges of sources with about equally many edges each.

    Candidates of a range are found in the order of targets. In a row that is sorted by source,
    those of the lower ranges come first, which gives the order of `frontier.scan`; and each word
    has its terms added in the order of targets, as there. A frontier with another row, which is
    noticed before its edges are used, is scanned by one thread.

    spare    int[V + MOST_RANGES]  overwritten
    returns  C, the number of candidates, and F, the number of edges
    """
    given = indptr, indices, dst, offset, slope, value, table, seen
    if pool.threads() == 1:
        return frontier.scan(*given, candidate)
    starts = pool.starts(indptr, dst)
    parts = min(pool.number(int(starts[-1]), per_thread=1), MOST_RANGES)
    bounds = _bounds(indptr, indices, dst, starts, seen.size, parts) if parts > 1 else []
    if len(bounds) < 3:
        return frontier.scan(*given, candidate)
    begin = np.arange(len(bounds) - 1) + bounds[:-1]
    ends = np.empty((begin.size, dst.size + 1), np.int64)
    candidate[: dst.size] = dst
    seen[dst] = rows.TINY
    pool.run(
        partial(rows.scan_sources, *given),
        [
            (low, high, spare[first : first + high - low + 1], own)
            for low, high, first, own in zip(bounds, bounds[1:], begin, ends, strict=False)
        ],
    )
    if ends[:, -1].min() < 0:
        for first, own in zip(begin, ends, strict=True):
            found = own[0] if own[-1] < 0 else own[-1]
            seen[spare[first : first + found]] = 0
        seen[dst] = 0
        return frontier.scan(*given, candidate)
    count = dst.size + int(ends[:, -1].sum())
    merge = partial(rows.merge, ends, begin, spare, candidate)
    pool.run(merge, pool.ranges(dst.size, 2 * count))
    return count, int(starts[-1])


def _bounds(
    indptr: IntArray, indices: IntArray, dst: IntArray, starts: IntArray, nodes: int, parts: int
) -> list[int]:
    """Bounds of ranges of nodes, quantiles of the sources of a few edges. At most parts + 1."""
    places = np.arange(_SAMPLE) * int(starts[-1]) // _SAMPLE
    target = np.searchsorted(starts, places, side="right") - 1
    source = np.sort(indices[indptr[dst[target]] + places - starts[target]])
    inner = source[np.arange(1, parts) * _SAMPLE // parts].tolist()
    return sorted({0, *inner, nodes})


def collect_mass(
    candidate: IntArray,
    seen: FloatArray,
    code: IntArray,
    table: FloatArray,
    power: float,
    mass: FloatArray,
) -> None:
    """`frontier.collect_mass`, divided by candidates."""

    def some(start: int, stop: int) -> None:
        frontier.collect_mass(candidate[start:stop], seen, code, table, power, mass[start:stop])

    pool.run(some, pool.ranges(mass.size, 4 * mass.size))


def gather(
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    source: IntArray,
    bits: IntArray,
    position: IntArray,
    scratch: IntArray,
) -> tuple[Any, Any, Any]:
    """`frontier.gather`, divided by targets."""
    starts = pool.starts(indptr, dst) if pool.threads() > 1 else np.zeros(1, np.int64)
    parts = pool.shares(starts, 1.0)
    if len(parts) == 1:
        return frontier.gather(indptr, indices, dst, source, bits, position, scratch)
    kept = np.empty(dst.size, np.int64)

    def find(start: int, stop: int) -> None:
        own = scratch[starts[start] : starts[stop]]
        rows.find_kept(indptr, indices, dst, bits, own, kept, start, stop)

    try:
        rows.mark_sources(source, bits, position)
        pool.run(find, parts)
    finally:
        bits[source >> 5] = 0  # also after an interrupt
    kept_indptr = np.concatenate([[0], np.cumsum(kept)])
    row, edge = np.empty((2, kept_indptr[-1]), np.int64)

    def write(start: int, stop: int) -> None:
        to = slice(kept_indptr[start], kept_indptr[stop])
        found = scratch[starts[start] : starts[start] + to.stop - to.start]
        rows.write_kept(indices, position, found, row[to], edge[to])

    pool.run(write, parts)
    return kept_indptr, row, edge
