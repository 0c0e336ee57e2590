"""Compiled kernels of networks: attention over a block, its gradient, and dropout.

Attention needs no array of size edges x width. Edges are grouped by target, so sums over a target's
edges have a fixed order. `bliss.nn.attention` has the same functions in plain torch; tests compare
both.

Threads divide the targets among them or, if sums run over the edges of several targets, the columns
of all rows: heads or pieces of heads. A range of heads is unsigned, because numba would otherwise
test for negative indices, which makes these loops take 1.7 times as long.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels import pool
from bliss.kernels.coins import random_bits
from bliss.kernels.compile import compiled, compiled_reductions

_LANE = np.uint64(0xFFFF)
_LINE = 16  # float32 numbers in a cache line
_LANES = 4  # columns of an edge in a nanosecond, about


def gatv2_scores(
    slope: float,
    indptr: IntArray,
    row: IntArray,
    target: FloatArray,
    source: FloatArray,
    vector: FloatArray,
) -> Any:
    """Scores e_ij = a . LeakyReLU(target_i + source_j) of each head.

    indptr   int64[D + 1], row int64[E']
    target   float32[D, H, C], source float32[S, H, C], vector float32[H, C]
    returns  float32[E', H]
    """
    scores = np.empty((row.size, vector.shape[0]), np.float32)
    task = partial(_scores, slope, indptr, row, target, source, vector, scores)
    pool.run(task, pool.shares(indptr, vector.size / _LANES))
    return scores


@compiled_reductions
def _scores(
    slope: float,
    indptr: IntArray,
    row: IntArray,
    target: FloatArray,
    source: FloatArray,
    vector: FloatArray,
    scores: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Write the scores of the targets in [start, stop)."""
    heads, width = vector.shape
    leak = np.float32(slope)
    for t in range(start, stop):
        for e in range(indptr[t], indptr[t + 1]):
            j = row[e]
            for h in range(heads):
                at_target, at_source, weight = target[t, h], source[j, h], vector[h]
                total = np.float32(0)
                for c in range(width):
                    z = at_target[c] + at_source[c]
                    total += weight[c] * max(z, leak * z)
                scores[e, h] = total


def gatv2_scores_backward(
    slope: float,
    indptr: IntArray,
    row: IntArray,
    target: FloatArray,
    source: FloatArray,
    vector: FloatArray,
    grad: FloatArray,
) -> tuple[Any, Any, Any]:
    """Gradients of `gatv2_scores` with respect to target, source, vector. grad float32[E', H]."""
    pieces = _pieces(row.size, *vector.shape)
    arrays = target, source, vector
    cut = [_cut(array, pieces) for array in arrays]
    grads = [_zeros(array.shape) for array in cut]
    given: tuple[Any, ...] = (slope, indptr, row, *cut, grad, pieces, *grads)
    task = partial(_scores_backward, *given)
    work = 2 * row.size * vector.size // _LANES
    pool.run(task, pool.ranges(vector.shape[0] * pieces, work, per_thread=1))
    to_target, to_source, to_vector = (
        own.reshape(array.shape) for own, array in zip(grads, arrays, strict=True)
    )
    return to_target, to_source, to_vector


@compiled_reductions
def _scores_backward(
    slope: float,
    indptr: IntArray,
    row: IntArray,
    target: FloatArray,
    source: FloatArray,
    vector: FloatArray,
    grad: FloatArray,
    pieces: int,
    grad_target: FloatArray,
    grad_source: FloatArray,
    grad_vector: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Add up the gradients of the pieces of heads in [start, stop)."""
    width = vector.shape[1]
    leak = np.float32(slope)
    head = np.arange(vector.shape[0]) // pieces  # a division in the loop would be slow
    for t in range(indptr.size - 1):
        for e in range(indptr[t], indptr[t + 1]):
            j = row[e]
            for h in range(np.uint64(start), np.uint64(stop)):
                at_target, at_source, weight = target[t, h], source[j, h], vector[h]
                to_target, to_source = grad_target[t, h], grad_source[j, h]
                to_vector, share = grad_vector[h], grad[e, head[h]]
                for c in range(width):
                    z = at_target[c] + at_source[c]
                    inner = share * weight[c] * (np.float32(1) if z > 0 else leak)
                    to_vector[c] += share * max(z, leak * z)
                    to_target[c] += inner
                    to_source[c] += inner


def attend(
    indptr: IntArray, row: IntArray, scores: FloatArray, mask: FloatArray, values: FloatArray
) -> tuple[Any, Any]:
    """Sum of the values, weighted by the softmax of the scores over each target's edges.

    scores   float32[E', H]
    mask     float32[E', H]     factors of dropout, or float32[0, 1] for none
    values   float32[S, H, C]
    returns  out float32[D, H, C], attention float32[E', H] (before the mask)
    """
    _, heads, width = values.shape
    out = np.zeros((indptr.size - 1, heads, width), np.float32)
    attention = np.empty_like(scores)
    task = partial(_attend, indptr, row, scores, mask, values, out, attention)
    pool.run(task, pool.shares(indptr, heads * width / _LANES))
    return out, attention


@compiled_reductions
def _attend(
    indptr: IntArray,
    row: IntArray,
    scores: FloatArray,
    mask: FloatArray,
    values: FloatArray,
    out: FloatArray,
    attention: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Write the sums and the attention of the targets in [start, stop)."""
    _, heads, width = values.shape
    for t in range(start, stop):
        for h in range(heads):
            largest = np.float32(-np.inf)
            for e in range(indptr[t], indptr[t + 1]):
                largest = max(largest, scores[e, h])
            total = np.float32(0)
            for e in range(indptr[t], indptr[t + 1]):
                attention[e, h] = math.exp(scores[e, h] - largest)
                total += attention[e, h]
            for e in range(indptr[t], indptr[t + 1]):
                attention[e, h] /= total
        for e in range(indptr[t], indptr[t + 1]):
            for h in range(heads):
                weight = attention[e, h] * (mask[e, h] if mask.size else np.float32(1))
                value, to = values[row[e], h], out[t, h]
                for c in range(width):
                    to[c] += weight * value[c]


def attend_backward(
    indptr: IntArray,
    row: IntArray,
    attention: FloatArray,
    mask: FloatArray,
    values: FloatArray,
    grad: FloatArray,
) -> tuple[Any, Any]:
    """Gradients of `attend` with respect to scores and values. grad float32[D, H, C]."""
    _, heads, width = values.shape
    grad_scores = np.empty_like(attention)
    task = partial(_grad_scores, indptr, row, attention, mask, values, grad, grad_scores)
    pool.run(task, pool.shares(indptr, heads * width / _LANES))
    pieces = _pieces(row.size, heads, width)
    given = _cut(grad, pieces)
    grad_values = _zeros((values.shape[0], *given.shape[1:]))
    task = partial(_grad_values, indptr, row, attention, mask, given, pieces, grad_values)
    work = row.size * heads * width // _LANES
    pool.run(task, pool.ranges(heads * pieces, work, per_thread=1))
    return grad_scores, grad_values.reshape(values.shape)


@compiled_reductions
def _grad_scores(
    indptr: IntArray,
    row: IntArray,
    attention: FloatArray,
    mask: FloatArray,
    values: FloatArray,
    grad: FloatArray,
    grad_scores: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Write the gradients of the scores of the targets in [start, stop)."""
    _, heads, width = values.shape
    for t in range(start, stop):
        for e in range(indptr[t], indptr[t + 1]):
            for h in range(heads):
                keep = mask[e, h] if mask.size else np.float32(1)
                value, given = values[row[e], h], grad[t, h]
                dot = np.float32(0)
                for c in range(width):
                    dot += given[c] * value[c]
                grad_scores[e, h] = dot * keep
        for h in range(heads):
            mean = np.float32(0)
            for e in range(indptr[t], indptr[t + 1]):
                mean += attention[e, h] * grad_scores[e, h]
            for e in range(indptr[t], indptr[t + 1]):
                grad_scores[e, h] = attention[e, h] * (grad_scores[e, h] - mean)


@compiled_reductions
def _grad_values(
    indptr: IntArray,
    row: IntArray,
    attention: FloatArray,
    mask: FloatArray,
    grad: FloatArray,
    pieces: int,
    grad_values: FloatArray,
    start: int,
    stop: int,
) -> None:
    """Add up the gradients of the values in the pieces of heads in [start, stop)."""
    width = grad.shape[2]
    head = np.arange(grad.shape[1]) // pieces  # a division in the loop would be slow
    for t in range(indptr.size - 1):
        for e in range(indptr[t], indptr[t + 1]):
            for h in range(np.uint64(start), np.uint64(stop)):
                keep = mask[e, head[h]] if mask.size else np.float32(1)
                weight = attention[e, head[h]] * keep
                to, given = grad_values[row[e], h], grad[t, h]
                for c in range(width):
                    to[c] += weight * given[c]


def _pieces(edges: int, heads: int, width: int) -> int:
    """Pieces of whole cache lines to cut each head into, so that every thread has one."""
    parts, pieces = pool.number(edges * heads * width // _LANES, per_thread=1), 1
    while heads * pieces < parts and width % (2 * pieces * _LINE) == 0:
        pieces *= 2
    return pieces


def _cut(array: FloatArray, pieces: int) -> FloatArray:
    """The array with each head cut into pieces. [..., H, C] -> [..., H pieces, C / pieces]."""
    *rest, heads, width = array.shape
    return array.reshape(*rest, heads * pieces, width // pieces)


def _zeros(shape: tuple[int, ...]) -> FloatArray:
    """Zeros that begin with a cache line, so that two threads do not write to the same one."""
    size = math.prod(shape)
    room = np.zeros(size + _LINE, np.float32)
    skipped = -room.ctypes.data // 4 % _LINE
    return room[skipped : skipped + size].reshape(shape)


def dropout(x: FloatArray, key: np.uint64, rate: float, out: FloatArray) -> None:
    """Set each entry to 0 with probability `rate` and scale up the others.

    A hash of 64 bits gives four coins. The same key drops the same entries, so the gradient needs
    no mask.

    x    float32[N]
    out  float32[N], written
    """
    ranges = pool.ranges(x.size, x.size, 4)
    pool.run(partial(_dropout, key, rate), [(x[a:b], out[a:b], a // 4) for a, b in ranges])


@compiled
def _dropout(key: np.uint64, rate: float, x: FloatArray, out: FloatArray, hashes: int) -> None:
    """Write the entries of a part that has `hashes` hashes before it."""
    threshold = np.uint64(rate * 65536.0 + 0.5)
    scale = np.float32(65536.0 / (65536.0 - np.float64(threshold)))
    whole = x.size // 4
    for quarter in range(whole):
        bits = random_bits(key, np.uint64(hashes + quarter))
        for lane in range(4):
            drawn = (bits >> np.uint64(16 * lane)) & _LANE
            value = x[4 * quarter + lane] * scale
            out[4 * quarter + lane] = value if drawn >= threshold else np.float32(0)
    bits = random_bits(key, np.uint64(hashes + whole))
    for lane in range(x.size - 4 * whole):
        drawn = (bits >> np.uint64(16 * lane)) & _LANE
        value = x[4 * whole + lane] * scale
        out[4 * whole + lane] = value if drawn >= threshold else np.float32(0)
