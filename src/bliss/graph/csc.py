"""Checks and conversion of edges compressed by target (CSC)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bliss import checks
from bliss.arrays import NO_IDS, NOTHING, Array, FloatArray, IntArray
from bliss.errors import InputError
from bliss.kernels import bounds, frontier
from bliss.kernels.times import ALWAYS

WEIGHTED = ("weights", "weighted-mean")
"""Norms that use given weights."""
_CHUNK = 1 << 18  # nodes


def index_type(num_nodes: int) -> type[np.int32] | type[np.int64]:
    """Type of the ids of nodes."""
    return np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64


def inverse_power(degree: IntArray, power: float) -> FloatArray:
    """degree^-power, and 0 for nodes without in-edges. float64[N]."""
    if power == 1.0:  # the same numbers as the power, in less time
        return np.asarray(frontier.inverse(degree))
    scale = np.zeros(degree.size)
    np.power(degree, -power, out=scale, where=degree > 0, dtype=np.float64)
    return scale


def check_weight(norm: str, weight: Any, num_edges: int) -> FloatArray:
    """Weights float32[E], if the norm takes them; otherwise empty."""
    if norm not in WEIGHTED:
        if weight is not None:
            raise InputError(
                f"weight was given with norm={norm!r}, which would ignore it: pass "
                'norm="weighted-mean" or norm="weights", or leave the weights out.'
            )
        return NOTHING
    if weight is None:
        raise InputError(
            f"norm={norm!r} needs one weight per edge, but none was given: pass weight=..., set "
            'data.edge_weight, or choose norm="mean".'
        )
    return checks.weights("weight", weight, num_edges)


def check_edge_ids(edge_id: IntArray, num_edges: int) -> IntArray:
    """Columns of edges in the user's edge_index, checked. int[E]."""
    if np.shape(edge_id) != (num_edges,) or edge_id.dtype.kind not in "iu":
        raise InputError(
            f"edge_id has shape {np.shape(edge_id)} for {num_edges} edges: pass one whole number "
            "per edge, or leave it out."
        )
    return edge_id


def degree_factors(indptr: IntArray, power: float) -> FloatArray:
    """|N_j|^(-power / 2), computed in chunks of nodes. float32[V]."""
    factor = np.empty(indptr.size - 1, np.float32)
    for start in range(0, factor.size, _CHUNK):
        degree = np.diff(indptr[start : start + _CHUNK + 1])
        factor[start : start + _CHUNK] = inverse_power(degree, 0.5) ** power
    return factor


def check_arrays(indptr: Any, indices: Any) -> tuple[IntArray, IntArray]:
    """Checked pointers int64[V + 1] and sources int32[E] or int64[E]; kernels do not check."""
    sources = checks.as_array("indices", indices)
    pointers = check_pointers(indptr, sources.size)
    num_nodes = pointers.size - 1
    sources = checks.node_ids("indices", sources, num_nodes)
    if sources.dtype not in (np.int32, np.int64):
        sources = sources.astype(index_type(num_nodes))
    return pointers, sources


def check_pointers(indptr: Any, num_edges: int) -> IntArray:
    """Checked pointers. int64[V + 1]."""
    pointers = checks.as_array("indptr", indptr)
    if pointers.dtype.kind not in "iu" or pointers.ndim != 1 or pointers.size == 0:
        raise InputError(
            f"indptr has type {pointers.dtype} and shape {pointers.shape}, but must be whole "
            "numbers [V + 1]: pass the pointer array of a CSC matrix."
        )
    pointers = pointers.astype(np.int64, copy=False)  # differences of unsigned numbers wrap
    if pointers[0] != 0 or pointers[-1] != num_edges or bounds.first_fall(pointers) >= 0:
        raise InputError(
            f"indptr runs from {pointers[0]} to {pointers[-1]}, but must run from 0 to the number "
            f"of edges, {num_edges}, without decreasing: check that indptr and indices belong "
            "together."
        )
    return pointers


def self_loops_of(indptr: IntArray, indices: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Self-loops in chunks of nodes: the number of nodes, and the node of each self-loop."""
    for start in range(0, indptr.size - 1, _CHUNK):
        pointers = indptr[start : start + _CHUNK + 1]
        nodes = np.arange(start, start + pointers.size - 1)
        source = indices[pointers[0] : pointers[-1]]
        yield nodes.size, source[source == np.repeat(nodes, np.diff(pointers))]


class Compressed(NamedTuple):
    """Edges compressed by target; optional arrays are empty."""

    indptr: IntArray  # int64[V + 1]
    indices: IntArray  # int[E]
    weight: FloatArray  # float32[E]
    column: IntArray  # int[E]
    time: IntArray  # int64[E]


def compress(
    pairs: Array,
    num_nodes: int,
    value: FloatArray,
    column: IntArray,
    time: IntArray,
    norm: str,
    self_loops: str,
    duplicates: str,
) -> Compressed:
    """Edges sorted by target and source, or by target, time and source; see `from_edge_index`.

    value, column and time have one entry per pair, or are empty.
    """
    kind = index_type(num_nodes)
    source: IntArray = checks.node_ids("edge_index", pairs[0], num_nodes).astype(kind)
    target: IntArray = checks.node_ids("edge_index", pairs[1], num_nodes).astype(kind)
    column = column.astype(index_type(source.size))
    has_ids, has_times = column.size > 0, time.size > 0
    if has_times and duplicates == "coalesce":
        raise InputError(
            'duplicates="coalesce" would merge edges of different times: pass duplicates="keep".'
        )
    if has_times and norm == "weighted-mean" and self_loops == "add":
        raise InputError(
            'self_loops="add" with norm="weighted-mean" gives a self-loop the mean weight of '
            'edges of any time, future ones included: pass self_loops="keep" or another norm.'
        )
    if self_loops != "keep":
        others = source != target
        loop_column = loop_columns(source, ~others, column, num_nodes) if has_ids else column
        if has_ids and has_times:  # attributes of a given self-loop may be of the future
            loop_column = np.full(num_nodes, -1, column.dtype)
        source, target = source[others], target[others]
        value = value[others] if value.size else value
        column = column[others] if has_ids else column
        time = time[others] if has_times else time
    if self_loops == "add":
        loops = np.arange(num_nodes, dtype=kind)
        source, target = np.concatenate([source, loops]), np.concatenate([target, loops])
        if norm in WEIGHTED:
            value = np.concatenate([value, np.ones(num_nodes, np.float32)])
        column = np.concatenate([column, loop_column]) if has_ids else column
        time = np.concatenate([time, np.full(num_nodes, ALWAYS)]) if has_times else time

    indptr, order = frontier.group_by_target(source, target, num_nodes)
    if has_times:
        order = order[np.lexsort((time[order], target[order]))]
    indices = source[order]
    value = value[order] if value.size else value
    column = column[order] if has_ids else column
    time = time[order] if has_times else NO_IDS
    if duplicates == "coalesce":
        indptr, indices, value, column = coalesce(indptr, indices, value, column)
    if norm == "weighted-mean" and self_loops == "add":
        value, _ = mean_self_loops(indptr, indices, value)
    return Compressed(indptr, indices, value, column, time)


def loop_columns(source: IntArray, is_loop: Array, column: IntArray, num_nodes: int) -> IntArray:
    """Column of the first self-loop of each node, -1 without one. int[V]."""
    first = np.full(num_nodes, -1, column.dtype)
    first[source[is_loop][::-1]] = column[is_loop][::-1]  # in reverse, so that the first remains
    return first


def coalesce(
    indptr: IntArray, indices: IntArray, value: FloatArray, column: IntArray
) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Merge equal edges, which are adjacent in each sorted row, and add their weights."""
    if indices.size == 0:
        return indptr, indices, value, column
    target = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    is_first = np.ones(indices.size, bool)
    is_first[1:] = (indices[1:] != indices[:-1]) | (target[1:] != target[:-1])
    first = np.flatnonzero(is_first)
    merged = np.zeros_like(indptr)
    np.cumsum(np.bincount(target[first], minlength=indptr.size - 1), out=merged[1:])
    total = np.add.reduceat(value, first) if value.size else value
    return merged, indices[first], total, column[first] if column.size else column


def ranges(pointer: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges, start and stop, of at most `most` entries each, or of one item.

    pointer [N + 1]: entries of item n are pointer[n] to pointer[n + 1]
    """
    start, last = 0, pointer.size - 1
    while start < last:
        stop = int(np.searchsorted(pointer, pointer[start] + most, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        yield start, stop
        start = stop


def mean_self_loops(
    indptr: IntArray, indices: IntArray, weight: FloatArray, first: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Weights in which a self-loop has the mean weight of the node's other in-edges.

    A node without other edges, or with edges of weight 0 alone, has a self-loop of weight 1.

    indptr   int64[N + 1]  of the nodes first to first + N - 1, from 0
    returns  float32[E], and the sum of the other weights of each node, float64[N]
    """
    degree = np.diff(indptr)
    owner = np.repeat(np.arange(degree.size), degree)
    is_loop = indices == owner + first
    values = np.where(is_loop, 0.0, weight)
    others: FloatArray = np.bincount(owner, values, degree.size).astype(np.float64)
    number = degree - np.bincount(owner[is_loop], minlength=degree.size)
    mean = np.where(others > 0, others / np.maximum(number, 1), 1.0)
    return np.where(is_loop, mean[owner], weight).astype(np.float32), others
