"""The compiled kernels of subgraphs: walks and pairs.

Rows are sorted if the sources of each target are in increasing order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels.coins import COINS, coin
from bliss.kernels.compile import compiled


@compiled
def random_walks(
    indptr: IntArray, indices: IntArray, root: IntArray, length: int, key: np.uint64
) -> Any:
    """Random walks of `length` hops to uniform in-neighbours; a walk stays if there are none.

    indptr   int64[V + 1]
    indices  int[E]
    root     int64[R]
    key      uint64            hop t of walk r uses coin r * length + t
    returns  int64[R, length + 1], the roots first
    """
    walk = np.empty((root.size, length + 1), np.int64)
    for r in range(root.size):
        node = root[r]
        walk[r, 0] = node
        for t in range(length):
            first = indptr[node]
            degree = indptr[node + 1] - first
            if degree > 0:
                share = coin(key, np.uint64(r * length + t)) / COINS
                node = np.int64(indices[first + np.int64(share * degree)])
            walk[r, t + 1] = node
    return walk


@compiled
def _equal_range(indices: IntArray, first: int, last: int, node: int) -> tuple[int, int]:
    """First and last position (exclusive) of `node` in the sorted row indices[first:last]."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < node:
            low = middle + 1
        else:
            high = middle
    high = low
    while high < last and indices[high] == node:
        high += 1
    return low, high


@compiled
def count_visits(
    indptr: IntArray,
    indices: IntArray,
    walk: IntArray,
    node_count: IntArray,
    edge_count: IntArray,
) -> None:
    """Count the walks that visit each node, and both ends of each edge; self-loops are excluded.

    indices     int[E]         rows sorted
    walk        int64[R, H]
    node_count  int64[V]       added to
    edge_count  int64[E]       added to
    """
    visited = np.empty(walk.shape[1], np.int64)
    for r in range(walk.shape[0]):
        count = 0
        for t in range(walk.shape[1]):
            is_new = True
            for before in range(count):
                is_new = is_new and visited[before] != walk[r, t]
            if is_new:
                visited[count] = walk[r, t]
                count += 1
        for a in range(count):
            i = visited[a]
            node_count[i] += 1
            for b in range(count):
                if a != b:
                    low, high = _equal_range(indices, indptr[i], indptr[i + 1], visited[b])
                    for e in range(low, high):
                        edge_count[e] += 1


@compiled
def pair_values(indptr: IntArray, indices: IntArray, value: FloatArray) -> Any:
    """For each edge j -> i, the sum of values of all edges from j to i, and of all from i to j.

    Both are equal for a self-loop. O(E log of the largest degree).

    indices  int[E]       rows sorted
    value    float64[V]   value of every edge into the node
    returns  float64[2, E]
    """
    total = np.zeros((2, indices.size), np.float64)
    for i in range(indptr.size - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            low, high = _equal_range(indices, indptr[i], indptr[i + 1], j)
            total[0, e] = (high - low) * value[i]
            low, high = _equal_range(indices, indptr[j], indptr[j + 1], i)
            total[1, e] = (high - low) * value[j]
    return total
