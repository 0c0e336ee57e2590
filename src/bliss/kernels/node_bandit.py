"""The compiled kernels of the node bandit: running means of node signals, encoded as bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels import pool
from bliss.kernels.compile import compiled

CODES_PER_UNIT = 16
"""Codes per unit of a node's log factor: a rounding error of at most 3%, far below other errors."""
CODE_OF_ONE = 128
LARGEST_SIGNAL = CODE_OF_ONE / CODES_PER_UNIT
"""Bound of a log signal: messages count as at most e^8 times above or below their layer's level."""

SMALLEST_ATTENTION = 1e-9
"""Lower bound of attention, so that its logarithm is finite."""

_U1, _U2 = np.uint64(1), np.uint64(2)


@compiled
def source_scores(
    kept_indptr: IntArray, row: IntArray, attention: FloatArray, score: FloatArray
) -> Any:
    """Observations of log a_j from the kept softmax, modelling attention as a_j / sum over N_i.

    With l_ij the log of the kept softmax, the offset u_i of a target is the mean residual of its
    kept edges. The observation of a source is the mean of l_ij - u_i over its kept edges:

        u_i = mean_k (l_ik - score_k),    observation_j = mean_i (l_ij - u_i)

    Scores that explain all attention are therefore unchanged, for any set of kept edges. The
    observations of a target's edges average to the mean of their scores, so scores cannot drift
    together. A target that kept a single edge gives no observation.

    attention  float32[E'], raised to at least SMALLEST_ATTENTION
    score      float[S]
    returns    float64[S], NaN for a source without an observation
    """
    total = np.zeros(score.size, np.float64)
    count = np.zeros(score.size, np.float64)
    logs = np.empty(attention.size, np.float32)  # computed in a separate loop, which is faster
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
    observation = np.empty(score.size, np.float64)
    for s in range(score.size):
        observation[s] = total[s] / count[s] if count[s] > 0.0 else np.nan
    return observation


def coded_sums(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    code: IntArray,
    table: FloatArray,
    edge_code: IntArray,
    edge_table: FloatArray,
) -> Any:
    """Sum over each group's edges of table[code_j], or of edge_table[edge_code_ij] table[code_j].

    code uint8[V], edge_code uint8[E] or empty, tables float32[256] -> float64[G]
    """
    sums = np.empty(pointer.size - 1, np.float64)
    codes = indices, code, table, edge_code, edge_table

    def sum_groups(first: int, last: int) -> None:
        _coded_sums(pointer[first : last + 1], start, stop, *codes, sums[first:last])

    pool.run(sum_groups, pool.group_ranges(pointer, start, stop, 1.0))
    return sums


@compiled
def _coded_sums(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    code: IntArray,
    table: FloatArray,
    edge_code: IntArray,
    edge_table: FloatArray,
    sums: FloatArray,
) -> None:
    """Write the sums of some groups."""
    for g in range(sums.size):
        total = 0.0
        for r in range(np.uint64(pointer[g]), np.uint64(pointer[g + 1])):
            first, last = np.uint64(start[r]), np.uint64(stop[r])
            if edge_code.size:
                for e in range(first, last):
                    factor = edge_table[np.uint64(edge_code[e])]
                    total += factor * table[code[np.uint64(indices[e])]]
            else:
                for e in range(first, last):
                    total += table[code[np.uint64(indices[e])]]
        sums[g] = total


@compiled
def fit_scores(
    indptr: IntArray,
    indices: IntArray,
    num_nodes: int,
    edge_code: IntArray,
    table: FloatArray,
    rounds: int,
) -> Any:
    """Fit one score per node to given attention: alpha_ij = a_j / Z_i, Z_i = sum over N_i of a_k.

    Starting from a_j = 1, each round sets

        a_j <- sum_i alpha_ij / sum_i 1 / Z_i

    so that the columns of the fitted attention sum to those of the given one. No round decreases
    the likelihood sum_ij alpha_ij log(a_j / Z_i), whose maximum is the fixed point.

    indptr     int64[Q + 1]  edges of each group i, a target or a target under one relation
    edge_code  uint8[E]      alpha_ij = table[edge_code_ij]
    table      float32[256]
    returns    float64[V]    a_j; 1 for nodes without an out-edge
    """
    column = np.zeros(num_nodes, np.float64)  # sum_i alpha_ij
    for e in range(indices.size):
        column[np.uint64(indices[e])] += table[np.uint64(edge_code[e])]
    score = np.ones(num_nodes, np.float64)
    inverse = np.empty(num_nodes, np.float64)  # sum_i 1 / Z_i
    for _ in range(rounds):
        inverse[:] = 0.0
        for i in range(indptr.size - 1):
            first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            total = 0.0
            for e in range(first, last):
                total += score[np.uint64(indices[e])]
            for e in range(first, last):
                inverse[np.uint64(indices[e])] += 1.0 / total
        for j in range(num_nodes):
            if inverse[j] > 0.0:
                score[j] = column[j] / inverse[j]
    return score


@compiled
def follow(
    source: IntArray,
    signal: FloatArray,
    level: float,
    memory: float,
    prior: float,
    arm: FloatArray,
) -> tuple[Any, float, float, float]:
    """Update the running mean of each observed node and return its shrunken estimate.

        m_j <- m_j + max(1 / (n_j + 1), beta) (x_j - m_j),    x_j = signal_j - level
        estimate_j = m_j n / (n + s),                          n = min(n_j, 2 / beta - 1)

    n is the effective number of observations of a mean with rate beta. Two sums over the nodes
    observed before are also returned: of (x_j - m_j)^2 / (1 + 1 / n), whose expectation is the
    variance of one observation, and of x_j^2.

    source   int64[S]
    signal   float[S]       x_j is clipped to [-LARGEST_SIGNAL, LARGEST_SIGNAL]
    arm      float32[V, 2]  m_j and n_j, changed in place
    returns  estimate float64[S], both sums, and the number of nodes in them
    """
    size = source.size
    mean, seen = np.empty(size, np.float32), np.empty(size, np.float32)
    for s in range(size):  # only reads, so that their cache misses overlap
        j = np.uint64(source[s])
        mean[s], seen[s] = arm[j, 0], arm[j, 1]
    estimate = np.empty(size, np.float64)
    misses, squares, repeats = 0.0, 0.0, 0.0
    longest = 2.0 / memory - 1.0
    for s in range(size):
        x = min(max(np.float64(signal[s]) - level, -LARGEST_SIGNAL), LARGEST_SIGNAL)
        m, n = np.float64(mean[s]), np.float64(seen[s])
        if n > 0.0:
            misses += (x - m) * (x - m) / (1.0 + 1.0 / min(n, longest))
            squares += x * x
            repeats += 1.0
        n += 1.0
        m += max(1.0 / n, memory) * (x - m)
        mean[s], seen[s] = m, n
        effective = min(n, longest)
        estimate[s] = m * effective / (effective + prior)
    for s in range(size):
        j = np.uint64(source[s])
        arm[j, 0], arm[j, 1] = mean[s], seen[s]
    return estimate, misses, squares, repeats


@compiled
def encode(source: IntArray, logarithm: FloatArray, code: IntArray) -> None:
    """Encode one logarithm per source as a byte, in steps of 1 / CODES_PER_UNIT.

    logarithm float64[S], code uint8[V], changed in place
    """
    for s in range(source.size):
        near = CODES_PER_UNIT * logarithm[s] + (CODE_OF_ONE + 0.5)
        code[np.uint64(source[s])] = np.uint8(min(max(near, 0.0), 255.0))
