"""Kernels of a sort on disk: pack edges into keys, spread keys over buckets, merge equal keys.

The key of the edge j -> i is ((i << bits | j) << 1) | r, with j, i < 2^bits. r is 1 for an entry
that is the reverse of a given edge. Keys in order are edges by target, then by source, then given
ones before reverses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import Array, BoolArray, FloatArray, IntArray
from bliss.kernels.compile import compiled

_U1 = np.uint64(1)


@compiled
def pack(
    source: IntArray,
    target: IntArray,
    weight: FloatArray,
    bits: int,
    key: Array,
    value: FloatArray,
    has_loop: BoolArray,
) -> tuple[int, int]:
    """Write the keys of edges and of their reverses; self-loops are marked and left out.

    source    int[N]
    target    int[N]
    weight    float32[N]   or empty
    bits      int          number of bits of a node
    key       uint64[2 N]  written
    value     float32[2 N] written: the weights of the keys; not used if there are no weights
    has_loop  bool[V]      updated: whether a node has a self-loop
    returns   the number of keys, and the number of self-loops
    """
    shift, count, loops = np.uint64(bits), 0, 0
    for e in range(source.size):
        j, i = np.uint64(source[e]), np.uint64(target[e])
        if i == j:
            has_loop[i] = True
            loops += 1
            continue
        key[count] = (i << shift | j) << _U1
        key[count + 1] = (j << shift | i) << _U1 | _U1
        if weight.size:
            value[count] = weight[e]
            value[count + 1] = weight[e]
        count += 2
    return count, loops


@compiled
def spread(
    key: Array,
    value: FloatArray,
    drop: int,
    start: IntArray,
    spread_key: Array,
    spread_value: FloatArray,
) -> None:
    """Sort keys by bucket, stably. The bucket is bits drop to drop + log2(B) of a key.

    key           uint64[N]
    value         float32[N]    or empty
    drop          int           number of low bits that do not choose the bucket
    start         int64[B + 1]  written: the first position of each bucket, and N; B a power of 2
    spread_key    uint64[N]     written
    spread_value  float32[N]    written; not used if there are no values
    """
    shift, mask = np.uint64(drop), np.uint64(start.size - 2)
    start[:] = 0
    for n in range(key.size):
        start[(key[n] >> shift & mask) + _U1] += 1
    for bucket in range(1, start.size):
        start[bucket] += start[bucket - 1]
    place = start.copy()
    for n in range(key.size):
        bucket = key[n] >> shift & mask
        position = place[bucket]
        place[bucket] = position + 1
        spread_key[position] = key[n]
        if value.size:
            spread_value[position] = value[n]


@compiled
def merge(
    key: Array, bits: int, directed: bool, first_target: int, degree: IntArray, source: Any
) -> tuple[int, int]:
    """Sources and in-degrees of sorted keys, equal edges once.

    key           uint64[N]  sorted
    bits          int        number of bits of a node
    directed      bool       whether entries that are only reverses are left out
    first_target  int        target that degree[0] belongs to
    degree        int64[T]   increased by the number of edges of each target
    source        int[N]     written: the sources of the edges
    returns       the number of edges, and how many of them, self-loops apart, have their reverse
    """
    shift = np.uint64(bits)
    low = (_U1 << shift) - _U1
    count, both, n = 0, 0, 0
    while n < key.size:
        edge = key[n] >> _U1
        is_given = key[n] & _U1 == 0
        while n < key.size and key[n] >> _U1 == edge:
            n += 1
        if directed and not is_given:
            continue
        j, i = edge & low, edge >> shift
        source[count] = j
        count += 1
        degree[np.int64(i) - first_target] += 1
        both += int(key[n - 1] & _U1 == 1 and i != j)
    return count, both
