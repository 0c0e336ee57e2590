"""The kernels of `subgraphs` again, in plain NumPy: slow, and what those are tested against."""

from __future__ import annotations

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.rng import uniforms


def random_walks(
    indptr: IntArray, indices: IntArray, root: IntArray, length: int, key: np.uint64
) -> IntArray:
    """Go `length` times from a node to one of its in-neighbours. int64[R, length + 1]."""
    walk: IntArray = np.repeat(root.astype(np.int64)[:, None], length + 1, axis=1)
    for t in range(length):
        share = uniforms(key, np.arange(root.size) * length + t)
        degree = indptr[walk[:, t] + 1] - indptr[walk[:, t]]
        edge = indptr[walk[:, t]] + (share * degree).astype(np.int64)
        walk[:, t + 1] = walk[:, t]
        walk[degree > 0, t + 1] = indices[edge[degree > 0]]
    return walk


def count_visits(
    indptr: IntArray, indices: IntArray, walk: IntArray, num_nodes: int
) -> tuple[IntArray, IntArray]:
    """How many walks visit each node, and both ends of each edge. int64[V], int64[E]."""
    visited = np.zeros((len(walk), num_nodes), np.int64)
    np.put_along_axis(visited, walk, 1, axis=1)
    target = np.repeat(np.arange(num_nodes), np.diff(indptr))
    both = (visited[:, target] * visited[:, indices]).sum(0)
    return visited.sum(0), np.where(target == indices, 0, both)


def pair_values(indptr: IntArray, indices: IntArray, value: FloatArray) -> FloatArray:
    """Values of all edges between the ends of each edge, its own way and the other. [2, E]."""
    nodes = value.size
    target = np.repeat(np.arange(nodes), np.diff(indptr))
    matrix = np.zeros((nodes, nodes))
    np.add.at(matrix, (target, indices), value[target])
    return np.stack([matrix[target, indices], matrix[indices, target]])
