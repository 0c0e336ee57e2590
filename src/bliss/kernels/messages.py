"""Compiled kernels of networks: attention over a block, its gradient, and dropout.

Attention needs no array of size edges x width. Edges are grouped by target, so sums over a target's
edges have a fixed order. `bliss.nn.attention` has the same functions in plain torch; tests compare
both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels.coins import random_bits
from bliss.kernels.compile import compiled, compiled_reductions

_LANE = np.uint64(0xFFFF)


@compiled_reductions
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
    heads, width = vector.shape
    scores = np.empty((row.size, heads), np.float32)
    leak = np.float32(slope)
    for t in range(indptr.size - 1):
        for e in range(indptr[t], indptr[t + 1]):
            j = row[e]
            for h in range(heads):
                one, other, weight = target[t, h], source[j, h], vector[h]
                total = np.float32(0)
                for c in range(width):
                    z = one[c] + other[c]
                    total += weight[c] * max(z, leak * z)
                scores[e, h] = total
    return scores


@compiled_reductions
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
    heads, width = vector.shape
    grad_target, grad_source = np.zeros_like(target), np.zeros_like(source)
    grad_vector = np.zeros_like(vector)
    leak = np.float32(slope)
    for t in range(indptr.size - 1):
        for e in range(indptr[t], indptr[t + 1]):
            j = row[e]
            for h in range(heads):
                one, other, weight = target[t, h], source[j, h], vector[h]
                to_one, to_other, to_weight = grad_target[t, h], grad_source[j, h], grad_vector[h]
                share = grad[e, h]
                for c in range(width):
                    z = one[c] + other[c]
                    inner = share * weight[c] * (np.float32(1) if z > 0 else leak)
                    to_weight[c] += share * max(z, leak * z)
                    to_one[c] += inner
                    to_other[c] += inner
    return grad_target, grad_source, grad_vector


@compiled_reductions
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
    num_dst = indptr.size - 1
    out = np.zeros((num_dst, heads, width), np.float32)
    attention = np.empty_like(scores)
    for t in range(num_dst):
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
    return out, attention


@compiled_reductions
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
    grad_scores, grad_values = np.empty_like(attention), np.zeros_like(values)
    for t in range(indptr.size - 1):
        for e in range(indptr[t], indptr[t + 1]):
            for h in range(heads):
                keep = mask[e, h] if mask.size else np.float32(1)
                weight = attention[e, h] * keep
                value, to, given = values[row[e], h], grad_values[row[e], h], grad[t, h]
                dot = np.float32(0)
                for c in range(width):
                    dot += given[c] * value[c]
                    to[c] += weight * given[c]
                grad_scores[e, h] = dot * keep
        for h in range(heads):
            mean = np.float32(0)
            for e in range(indptr[t], indptr[t + 1]):
                mean += attention[e, h] * grad_scores[e, h]
            for e in range(indptr[t], indptr[t + 1]):
                grad_scores[e, h] = attention[e, h] * (grad_scores[e, h] - mean)
    return grad_scores, grad_values


@compiled
def dropout(x: FloatArray, key: np.uint64, rate: float, out: FloatArray) -> None:
    """Set each entry to 0 with probability `rate` and scale up the others.

    A hash of 64 bits gives four coins. The same key drops the same entries, so the gradient needs
    no mask.

    x    float32[N]
    out  float32[N], written
    """
    threshold = np.uint64(rate * 65536.0 + 0.5)
    scale = np.float32(65536.0 / (65536.0 - np.float64(threshold)))
    whole = x.size // 4
    for quarter in range(whole):
        bits = random_bits(key, np.uint64(quarter))
        for lane in range(4):
            drawn = (bits >> np.uint64(16 * lane)) & _LANE
            value = x[4 * quarter + lane] * scale
            out[4 * quarter + lane] = value if drawn >= threshold else np.float32(0)
    bits = random_bits(key, np.uint64(whole))
    for lane in range(x.size - 4 * whole):
        drawn = (bits >> np.uint64(16 * lane)) & _LANE
        value = x[4 * whole + lane] * scale
        out[4 * whole + lane] = value if drawn >= threshold else np.float32(0)
