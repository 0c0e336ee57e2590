"""The compiled kernels of LABOR: in-edges kept by coins that belong to their sources."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels.coins import SHORT_COINS, CoinKey, fill_short_coins
from bliss.kernels.compile import compiled, compiled_reductions

_U0 = np.uint64(0)
_LINE = np.uint64(16)  # lower bound of the number of indices in a cache line
_TILE = 64
_CHUNK = 512  # a multiple of _VECTOR
_VECTOR = 32  # upper bound of the number of coins per iteration of a vectorised loop


@compiled
def pick_shared(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    degree: IntArray,
    indices: IntArray,
    chance: FloatArray,
    fanout: int,
    key: CoinKey,
    scratch: IntArray,
) -> tuple[Any, Any, Any]:
    """Keep edge j -> i if the coin of source j, shared by all its edges, is below p_ij.

    degree   int64[G]    number of edges of each group
    chance   float64[F]  p_ij; empty if p_ij = min(1, k / |N|)
    scratch  int64[F + 1]
    returns  kept_indptr int64[G + 1], edge int64[E'], prob float32[E']
    """
    groups = degree.size
    kept_indptr = np.zeros(groups + 1, np.int64)
    prob = np.empty(scratch.size if chance.size else 0, np.float32)
    coins = np.empty(_CHUNK, np.uint32)
    touched = np.zeros(1, np.int64)  # written, so that the reads are not optimised away
    count = _U0
    at = 0
    for g in range(groups):
        if g % _TILE == 0:  # load the next rows into the cache together, so that misses overlap
            total = np.int64(0)
            for r in range(pointer[g], pointer[min(g + _TILE, groups)]):
                for e in range(np.uint64(start[r]), np.uint64(stop[r]), _LINE):
                    total ^= np.int64(indices[e])
            touched[0] ^= total
        highest = np.uint32(math.ceil(min(fanout / max(degree[g], 1), 1.0) * SHORT_COINS) - 1)
        for r in range(pointer[g], pointer[g + 1]):
            first, last = int(start[r]), int(stop[r])
            while first < last:
                size = min(last - first, _CHUNK)
                # round up to whole vectors, reading beyond the row: a partial vector is slow
                whole = min(-(-size // _VECTOR) * _VECTOR, indices.size - first)
                fill_short_coins(key, indices[first : first + whole], coins)
                if chance.size:
                    for c in range(size):
                        scratch[count] = first + c
                        prob[count] = chance[at + c]
                        count += np.uint64(np.float64(coins[c]) < chance[at + c] * SHORT_COINS)
                else:
                    for c in range(size):
                        scratch[count] = first + c
                        count += np.uint64(coins[c] <= highest)
                first += size
                at += size
        kept_indptr[g + 1] = count
    edge = scratch[: np.int64(count)].copy()
    if chance.size:
        return kept_indptr, edge, prob[: edge.size].copy()
    prob = np.empty(edge.size, np.float32)
    for g in range(groups):
        share = np.float32(min(fanout / max(degree[g], 1), 1.0))
        for kept in range(kept_indptr[g], kept_indptr[g + 1]):
            prob[kept] = share
    return kept_indptr, edge, prob


@compiled
def labor_chances(
    frontier_indptr: IntArray,
    row: IntArray,
    num_src: int,
    coefficient: FloatArray,
    fanout: int,
    iterations: int,
    tolerance: float,
) -> Any:
    """LABOR's probabilities p_ij = min(1, c_i pi_ij), with the variance of k uniform neighbours.

    c_i solves, with A_ij the coefficients of target i and d = |N_i| > k,

        sum_j A_ij^2 / p_ij = (sum_j A_ij)^2 (1 / k - 1 / d) + sum_j A_ij^2

    From pi_ij = A_ij, each iteration sets pi_ij = pi_j <- max_i c_i pi_ij and solves for c again,
    which lowers the expected number of sources, sum_j min(1, max_i c_i pi_ij). A row of at most k
    edges has p_ij = 1, and a longer row without a positive coefficient p_ij = 0.

    frontier_indptr  int64[D + 1]  the in-edges of the targets
    row              int64[F]      position among the num_src sources
    coefficient      float64[F]    A_ij up to a factor per row; empty if equal in each row
    iterations       maximum number of rounds; the loop stops earlier if a round lowers the number
                     of sources by less than the share `tolerance` (0: it does not stop earlier)
    returns          float64[F]
    """
    largest = 1
    for t in range(frontier_indptr.size - 1):
        largest = max(largest, frontier_indptr[t + 1] - frontier_indptr[t])
    inverse = np.empty(largest, np.float64)  # 1 / pi_ij of a row
    chance = np.empty(row.size, np.float64)  # c_i pi_ij
    for t in range(frontier_indptr.size - 1):
        first, last = frontier_indptr[t], frontier_indptr[t + 1]
        if coefficient.size:
            for e in range(first, last):
                inverse[e - first] = 1.0 / coefficient[e] if coefficient[e] > 0.0 else 0.0
            _fit_row(inverse[: last - first], coefficient[first:last], fanout, chance[first:last])
        else:  # the solution for equal coefficients
            chance[first:last] = min(fanout / max(last - first, 1), 1.0)
    pi = np.empty(num_src, np.float64)
    before = np.inf
    for _ in range(iterations):
        pi[:] = 0.0
        for e in range(row.size):
            s = np.uint64(row[e])
            pi[s] = max(pi[s], chance[e])
        expected = 0.0
        for j in range(num_src):
            expected += min(1.0, pi[j])
        if expected > before * (1.0 - tolerance) and tolerance > 0.0:
            break
        before = expected
        for t in range(frontier_indptr.size - 1):
            first, last = frontier_indptr[t], frontier_indptr[t + 1]
            for e in range(first, last):
                size = pi[np.uint64(row[e])]
                inverse[e - first] = 1.0 / size if size > 0.0 else 0.0
            own = coefficient[first:last] if coefficient.size else coefficient
            _fit_row(inverse[: last - first], own, fanout, chance[first:last])
    for e in range(row.size):
        chance[e] = min(1.0, chance[e])
    return chance


@compiled
def _fit_row(inverse: FloatArray, coefficient: FloatArray, fanout: int, chance: FloatArray) -> None:
    """Write c pi of one target's edges, at least 1 if all are kept.

    inverse  float64[d]  1 / pi; 0 if pi is 0
    chance   float64[d]  written
    """
    scale = _solve(inverse, coefficient, fanout)
    for e in range(inverse.size):
        chance[e] = scale / inverse[e] if inverse[e] > 0.0 else 0.0
    if inverse.size <= fanout:
        for e in range(inverse.size):
            chance[e] = max(chance[e], 1.0)


@compiled_reductions
def _solve(inverse: FloatArray, coefficient: FloatArray, fanout: int) -> float:
    """Solve sum A^2 / min(1, c pi) = (sum A)^2 (1 / k - 1 / d) + sum A^2 for c.

    Starts at c = (sum A^2 / pi) / (right side). Each round removes the clipped terms (c pi >= 1)
    from both sides. Their number only grows, so the rounds end, at the solution.

    inverse      float64[d]  1 / pi
    coefficient  float64[d]  A; empty if all are equal
    """
    degree = inverse.size
    total, squares, rest, largest = 0.0, 0.0, 0.0, 0.0
    for e in range(degree):
        weight = coefficient[e] if coefficient.size else 1.0
        total += weight
        squares += weight * weight
        rest += weight * weight * inverse[e]
        largest = max(largest, inverse[e])
    if degree <= fanout:
        return largest  # keeps all edges
    need = total * total / fanout + (squares - total * total / degree)
    if need <= 0.0:
        return 0.0  # all coefficients are 0
    scale = rest / need
    clipped = 0
    while True:
        count, taken, rest = 0, 0.0, 0.0
        for e in range(degree):
            weight = coefficient[e] if coefficient.size else 1.0
            is_clipped = inverse[e] <= scale
            count += 1 if is_clipped else 0
            taken += weight * weight if is_clipped else 0.0
            rest += 0.0 if is_clipped else weight * weight * inverse[e]
        if count <= clipped or rest <= 0.0:
            return scale
        clipped = count
        scale = rest / (need - taken)
