"""The compiled kernels of histories: sums over all in-edges, and factors by age."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bliss.arrays import Array, FloatArray, IntArray
from bliss.kernels import pool
from bliss.kernels.compile import compiled

AGE_BINS = 34
"""Bins of an age: 0 for a node without a history, otherwise 1 + floor(log2(age))."""

_U1 = np.uint64(1)
_AHEAD = np.uint64(3)  # edges: rows are scattered in memory, so they are prefetched
_LINE = 16  # float32 numbers in a cache line


@intrinsic
def _as_float32(typing_context: Any, value: Any) -> Any:
    """A float32, or the float32 value of a half-precision number given by its bits (uint16)."""

    def convert(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (given,) = arguments
        if value == types.float32:
            return given
        return builder.fpext(builder.bitcast(given, ir.HalfType()), ir.FloatType())

    return types.float32(value), convert


@intrinsic
def _fetch(typing_context: Any, rows: Any, j: Any, f: Any) -> Any:
    """Prefetch the cache line of rows[j, f]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(  # type: ignore[no-untyped-call]
            context, builder, signature.args[0], array, [arguments[1], arguments[2]], False
        )
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, kind, "llvm.prefetch.p0i8"
        )
        constants = [ir.Constant(number, value) for value in (0, 3, 1)]
        builder.call(prefetch, [builder.bitcast(place, byte), *constants])
        return context.get_dummy_value()

    return types.void(rows, types.intp, types.intp), emit


def full_sums(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    target_scale: FloatArray,
    degree_indptr: IntArray,
    weight: FloatArray,
    value: Array,
    first: int = 0,
) -> Any:
    """Sum over the edges of each group of alpha_ij value_j.

        alpha_ij = target_scale_g / sqrt(|N_j|), or the given weight_ij

    target_scale   float64[G]    empty if weights are given
    degree_indptr  int64[V + 1]  pointers whose differences are |N_j|; empty if 1 takes the place
                                 of 1 / sqrt(|N_j|)
    weight         float[E]      empty unless weights are given
    value          float32[N, F], or the bits of float16[N, F] as uint16
    first          node of the first row of value: node j has the row j - first
    returns        float32[G, F]
    """
    total = np.zeros((pointer.size - 1, value.shape[1]), np.float32)

    def sum_groups(low: int, high: int) -> None:
        own = pointer[low : high + 1], start, stop
        scales = target_scale[low:high], degree_indptr, weight
        _full_sums(*own, indices, *scales, value, np.uint64(first), total[low:high])

    pool.run(sum_groups, pool.group_ranges(pointer, start, stop, value.shape[1] / 4))
    return total


@compiled
def _full_sums(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    target_scale: FloatArray,
    degree_indptr: IntArray,
    weight: FloatArray,
    value: Array,
    first: np.uint64,
    total: FloatArray,
) -> None:
    """Add up the sums of some groups."""
    width = value.shape[1]
    for g in range(total.shape[0]):
        row = total[g]
        for r in range(np.uint64(pointer[g]), np.uint64(pointer[g + 1])):
            last = np.uint64(stop[r])
            for e in range(np.uint64(start[r]), last):
                if e + _AHEAD < last:
                    coming = np.uint64(indices[e + _AHEAD]) - first
                    for f in range(0, width, _LINE):
                        _fetch(value, coming, f)  # type: ignore[call-arg]
                j = np.uint64(indices[e])
                alpha = target_scale[g] if target_scale.size else np.float64(weight[e])
                if degree_indptr.size:
                    degree = degree_indptr[j + _U1] - degree_indptr[j]
                    alpha *= 1.0 / math.sqrt(degree) if degree > 0 else 0.0
                factor = np.float32(alpha)
                own = value[j - first]
                for f in range(width):
                    row[f] += factor * _as_float32(own[f])  # type: ignore[call-arg]


@compiled
def add_rows(
    total: FloatArray, group: IntArray, factor: FloatArray, node: IntArray, value: Array
) -> None:
    """Add factor_n value_j to total_g, for g = group_n and j = node_n, in the order of n.

    total   float32[G, F]
    group   int64[N]
    factor  float32[N]
    node    int[N]
    value   float32[V, F], or the bits of float16[V, F] as uint16
    """
    for n in range(np.uint64(group.size)):
        row, own, scale = total[group[n]], value[node[n]], factor[n]
        for f in range(value.shape[1]):
            row[f] += scale * _as_float32(own[f])  # type: ignore[call-arg]


@compiled
def age_bin(age: int) -> int:
    """0 for age 0, which stands for no history, otherwise 1 + floor(log2(age))."""
    bits = 0
    while age > 0:
        bits += 1
        age >>= 1
    return bits


@compiled
def _age(written: int, now: int) -> int:
    return now + 1 - written if written >= 0 else 0


@compiled
def ages(node: IntArray, stamp: IntArray, now: int) -> Any:
    """Age of each node's history in the coming step: now + 1 - written; 0 without a history.

    node     int64[N]
    stamp    int32[V]   steps taken when the history was written, its own included; -1: never
    now      number of steps taken
    returns  int64[N]
    """
    age = np.zeros(node.size, np.int64)
    for n in range(node.size):
        age[n] = _age(stamp[np.uint64(node[n])], now)
    return age


@compiled
def scale_by_age(
    mass: FloatArray, candidate: IntArray, stamp: IntArray, now: int, factor: FloatArray
) -> None:
    """Multiply, in place, each candidate's mass by the factor of its history's age.

    stamp int32[V], factor float32[AGE_BINS]
    """
    for c in range(mass.size):
        mass[c] *= factor[age_bin(_age(stamp[np.uint64(candidate[c])], now))]
