"""The compiled kernels of LABOR: in-edges kept by coins that belong to their sources."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bliss.kernels.compile import compiled, compiled_reductions
from bliss.rng import COINS, random_bits

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.floating[Any]]

_U0, _U1, _S11 = np.uint64(0), np.uint64(1), np.uint64(11)
_LINE = np.uint64(16)  # indices in a cache line, at least
_TILE = 16
_CHUNK = 512


@compiled
def pick_shared(
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    chance: FloatArray,
    fanout: int,
    key: np.uint64,
    scratch: IntArray,
) -> tuple[Any, Any, Any]:
    """Keep edge j -> i if the coin of source j, the same for all its edges, is below p_ij.

    chance   float64[F]  p_ij; empty where p_ij = min(1, k / |N_i|)
    scratch  int64[F + 1]
    returns  kept_indptr int64[D + 1], edge int64[E'], prob float32[E']
    """
    kept_indptr = np.zeros(dst.size + 1, np.int64)
    coins = np.empty(_CHUNK, np.uint64)
    touched = np.zeros(1, np.int64)  # written, so that the reads are not optimised away
    count = _U0
    at = 0
    for t in range(dst.size):
        if t % _TILE == 0:  # bring the next rows into the cache together: their misses overlap
            total = np.int64(0)
            for ahead in range(t, min(t + _TILE, dst.size)):
                i = np.uint64(dst[ahead])
                for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + _U1]), _LINE):
                    total ^= np.int64(indices[e])
            touched[0] ^= total
        i = np.uint64(dst[t])
        first, last = indptr[i], indptr[i + _U1]
        limit = np.uint64(math.ceil(min(fanout / max(last - first, 1), 1.0) * COINS))
        while first < last:
            nodes = indices[first : min(first + _CHUNK, last)]
            for c in range(nodes.size):  # arithmetic alone, so that it is vectorised
                coins[c] = random_bits(key, np.uint64(nodes[c])) >> _S11
            if chance.size:
                for c in range(nodes.size):
                    scratch[count] = first + c
                    count += np.uint64(np.float64(coins[c]) < chance[at + c] * COINS)
            else:
                for c in range(nodes.size):
                    scratch[count] = first + c
                    count += np.uint64(coins[c] < limit)
            first += nodes.size
            at += nodes.size
        kept_indptr[t + 1] = count
    edge = scratch[: np.int64(count)].copy()
    prob = np.empty(edge.size, np.float32)
    at = 0
    for t in range(dst.size):
        first, degree = indptr[dst[t]], indptr[dst[t] + 1] - indptr[dst[t]]
        share = np.float32(min(fanout / max(degree, 1), 1.0))
        for kept in range(kept_indptr[t], kept_indptr[t + 1]):
            prob[kept] = chance[at + edge[kept] - first] if chance.size else share
        at += degree
    return kept_indptr, edge, prob


@compiled
def labor_chances(
    frontier_indptr: IntArray,
    row: IntArray,
    num_src: int,
    square: FloatArray,
    fanout: int,
    iterations: int,
    tolerance: float,
) -> Any:
    """p_ij = min(1, c_i pi_j) with the variance of k neighbours, and pi that shares sources.

    c_i solves sum_j a_ij / min(1, c_i pi_j) = (|N_i| / k) sum_j a_ij, a_ij = alpha_ij^2: Poisson
    coins then have the variance that k of |N_i| neighbours without replacement have. From pi = 1,
    each iteration sets pi_j <- pi_j max_i c_i and solves c again, which lowers the expected
    number of sources, sum_j min(1, pi_j max_i c_i).

    frontier_indptr  int64[D + 1]  the in-edges of the targets
    row              int64[F]      position among the num_src sources
    square           float64[F]    a_ij up to a factor per row; empty where they are all alike
    iterations       rounds at most; fewer if one lowers the number of sources by less than
                     the share `tolerance` (0: never fewer)
    returns          float64[F]
    """
    largest = 1
    scale = np.empty(frontier_indptr.size - 1, np.float64)
    for t in range(scale.size):  # the answer for pi = 1
        degree = frontier_indptr[t + 1] - frontier_indptr[t]
        scale[t] = min(fanout / max(degree, 1), 1.0)
        largest = max(largest, degree)
    pi = np.ones(num_src, np.float64)
    best = np.empty(num_src, np.float64)
    inverse = np.empty(largest, np.float64)
    before = np.inf
    for _ in range(iterations):
        best[:] = 0.0
        for t in range(scale.size):
            for e in range(frontier_indptr[t], frontier_indptr[t + 1]):
                s = np.uint64(row[e])
                best[s] = max(best[s], scale[t])
        expected = 0.0
        for j in range(num_src):
            expected += min(1.0, pi[j] * best[j])
        if expected > before * (1.0 - tolerance) and tolerance > 0.0:
            break
        before = expected
        for j in range(num_src):
            pi[j] *= best[j] if best[j] > 0.0 else 1.0
        for t in range(scale.size):
            first, last = frontier_indptr[t], frontier_indptr[t + 1]
            for e in range(first, last):
                inverse[e - first] = 1.0 / pi[np.uint64(row[e])]
            squares = square[first:last] if square.size else square
            scale[t] = _solve(inverse[: last - first], squares, fanout)
    chance = np.empty(row.size, np.float64)
    for t in range(scale.size):
        for e in range(frontier_indptr[t], frontier_indptr[t + 1]):
            chance[e] = min(1.0, scale[t] * pi[np.uint64(row[e])])
    return chance


@compiled_reductions
def _solve(inverse: FloatArray, square: FloatArray, fanout: int) -> float:
    """Solve sum a / min(1, c pi) = (|N| / k) sum a for c, given inverse = 1 / pi float64[|N|].

    From c = sum a / pi over the need, each round takes the clipped (c pi >= 1) out of both sides;
    they only grow in number, so the rounds end, at the answer.
    """
    degree = inverse.size
    total, rest, largest = 0.0, 0.0, 0.0
    for e in range(degree):
        weight = square[e] if square.size else 1.0
        total += weight
        rest += weight * inverse[e]
        largest = max(largest, inverse[e])
    if degree <= fanout:
        return (1.0 + 1e-12) * largest  # all of them, whatever is rounded
    need = total * degree / fanout
    if need <= 0.0:
        return largest * fanout / degree  # coefficients of 0: any chance will do
    scale = rest / need
    clipped = 0
    while True:
        count, taken, rest = 0, 0.0, 0.0
        for e in range(degree):
            weight = square[e] if square.size else 1.0
            is_clipped = inverse[e] <= scale
            count += 1 if is_clipped else 0
            taken += weight if is_clipped else 0.0
            rest += 0.0 if is_clipped else weight * inverse[e]
        if count <= clipped or rest <= 0.0:
            return scale
        clipped = count
        scale = rest / (need - taken)
