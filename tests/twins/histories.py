"""Plain NumPy twins of `bliss.kernels.histories`."""

from __future__ import annotations

import numpy as np

from bliss.arrays import FloatArray, IntArray
from tests.twins.layerwise import frontier_edges


def full_sums(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    target_scale: FloatArray,
    degree_indptr: IntArray,
    weight: FloatArray,
    value: FloatArray,
    first: int = 0,
) -> FloatArray:
    """Sum over the edges of each group of alpha_ij value_j. float32[G, F]."""
    edge, owner = frontier_edges(pointer, start, stop)
    alpha = target_scale[owner] if target_scale.size else weight[edge].astype(np.float64)
    if degree_indptr.size:
        degree = np.diff(degree_indptr)[indices[edge]]
        alpha = alpha * np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
    total = np.zeros((pointer.size - 1, value.shape[1]))
    np.add.at(total, owner, alpha[:, None] * value[indices[edge] - first].astype(np.float64))
    return total.astype(np.float32)


def add_rows(
    total: FloatArray, group: IntArray, factor: FloatArray, node: IntArray, value: FloatArray
) -> None:
    """Add factor_n value_j to total_g, for g = group_n and j = node_n."""
    np.add.at(total, group, factor[:, None] * value[node].astype(np.float32))


def age_bin(age: int) -> int:
    """0 for age 0, otherwise 1 + floor(log2(age))."""
    return int(age).bit_length()


def ages(node: IntArray, stamp: IntArray, now: int) -> IntArray:
    """Age of each node's history in the coming step; 0 without a history. int64[N]."""
    return np.where(stamp[node] < 0, 0, now + 1 - stamp[node])


def scale_by_age(
    mass: FloatArray, candidate: IntArray, stamp: IntArray, now: int, factor: FloatArray
) -> FloatArray:
    """Masses times the factor of the bin of each candidate's age."""
    return mass * factor[[age_bin(age) for age in ages(candidate, stamp, now)]]
