"""The compiled kernels of the node bandit: what is seen of nodes, followed and kept as bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels.compile import compiled

CODES_PER_UNIT = 16
"""Steps of a node's code per unit of its log factor: at most 3% off, far below other errors."""
CODE_OF_ONE = 128
LARGEST_NEWS = CODE_OF_ONE / CODES_PER_UNIT
"""A message counts as at most e^8 times larger or smaller than its layer's level."""

SMALLEST_ATTENTION = 1e-9
"""Attention below this counts as this: a logarithm needs a floor."""

_U1, _U2 = np.uint64(1), np.uint64(2)


@compiled
def source_scores(
    kept_indptr: IntArray, row: IntArray, attention: FloatArray, score: FloatArray
) -> Any:
    """What the kept softmax says of log a_j, if attention is a_j over its sum over N_i.

    With l_ij the log of the kept softmax, the target's own part is the mean over its kept edges
    of what the scores leave open, and a source's news the mean over its kept edges of the rest:

        u_i = mean_k (l_ik - score_k),    news_j = mean_i (l_ij - u_i)

    So scores that explain all attention stay as they are, whatever was kept; and a target's news
    are on average what its scores were, so that they cannot drift together. A target that kept a
    single edge tells nothing.

    attention  float32[E'], at least SMALLEST_ATTENTION is taken
    score      float[S]
    returns    float64[S], NaN for a source of which nothing was told
    """
    total = np.zeros(score.size, np.float64)
    count = np.zeros(score.size, np.float64)
    logs = np.empty(attention.size, np.float32)  # by themselves: a loop of nothing else is faster
    for kept in range(attention.size):
        logs[kept] = math.log(max(np.float32(attention[kept]), np.float32(SMALLEST_ATTENTION)))
    for t in range(kept_indptr.size - 1):
        first, last = np.uint64(kept_indptr[t]), np.uint64(kept_indptr[t + 1])
        if last - first < _U2:
            continue
        own = 0.0
        for kept in range(first, last):
            own += np.float64(logs[kept]) - score[np.uint64(row[kept])]
        own /= np.float64(last - first)
        for kept in range(first, last):
            total[np.uint64(row[kept])] += logs[kept] - own
            count[np.uint64(row[kept])] += 1.0
    news = np.empty(score.size, np.float64)
    for s in range(score.size):
        news[s] = total[s] / count[s] if count[s] > 0.0 else np.nan
    return news


@compiled
def coded_sums(
    dst: IntArray, indptr: IntArray, indices: IntArray, code: IntArray, table: FloatArray
) -> Any:
    """Sum over N_i of table[code_j].

    dst int64[D], code uint8[V], table float32[256] -> float64[D]
    """
    sums = np.zeros(dst.size, np.float64)
    for t in range(dst.size):
        i, total = np.uint64(dst[t]), 0.0
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + _U1])):
            total += table[code[np.uint64(indices[e])]]
        sums[t] = total
    return sums


@compiled
def follow(
    source: IntArray,
    signal: FloatArray,
    level: float,
    memory: float,
    prior: float,
    arm: FloatArray,
) -> tuple[Any, float, float, float]:
    """Move the running mean of each seen node, and tell what to believe of it.

        m_j <- m_j + max(1 / (n_j + 1), beta) (x_j - m_j),    x_j = signal_j - level
        believed_j = m_j n / (n + s),                          n = min(n_j, 2 / beta - 1)

    The last is the number of looks that a mean with rate beta is worth. Of nodes seen before, the
    sums of (x_j - m_j)^2 / (1 + 1 / n), which is the variance of a look on average, and of x_j^2.

    source   int64[S]
    signal   float[S]       x_j is cut to [-LARGEST_NEWS, LARGEST_NEWS]
    arm      float32[V, 2]  m_j and n_j, changed in place
    returns  float64[S], both sums, and the number of nodes in them
    """
    size = source.size
    mean, seen = np.empty(size, np.float32), np.empty(size, np.float32)
    for s in range(size):  # reading by itself lets the processor wait for many nodes at once
        j = np.uint64(source[s])
        mean[s], seen[s] = arm[j, 0], arm[j, 1]
    believed = np.empty(size, np.float64)
    misses, squares, repeats = 0.0, 0.0, 0.0
    longest = 2.0 / memory - 1.0
    for s in range(size):
        news = min(max(np.float64(signal[s]) - level, -LARGEST_NEWS), LARGEST_NEWS)
        m, n = np.float64(mean[s]), np.float64(seen[s])
        if n > 0.0:
            misses += (news - m) * (news - m) / (1.0 + 1.0 / min(n, longest))
            squares += news * news
            repeats += 1.0
        n += 1.0
        m += max(1.0 / n, memory) * (news - m)
        mean[s], seen[s] = m, n
        looks = min(n, longest)
        believed[s] = m * looks / (looks + prior)
    for s in range(size):
        j = np.uint64(source[s])
        arm[j, 0], arm[j, 1] = mean[s], seen[s]
    return believed, misses, squares, repeats


@compiled
def encode(source: IntArray, logarithm: FloatArray, code: IntArray) -> None:
    """Write a logarithm per source as a byte, in steps of 1 / CODES_PER_UNIT.

    logarithm float64[S], code uint8[V], changed in place
    """
    for s in range(source.size):
        near = CODES_PER_UNIT * logarithm[s] + (CODE_OF_ONE + 0.5)
        code[np.uint64(source[s])] = np.uint8(min(max(near, 0.0), 255.0))
