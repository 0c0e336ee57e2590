"""The compiled kernels of node-wise sampling: each target chooses among its own in-edges.

A draw returns three arrays, with edges grouped by target: kept_indptr int64[D + 1], edge int64[E']
(graph edge ids) and prob float32[E'], the probability of each kept edge or, with replacement, the
expected number of times it is drawn. `relabel` then numbers the sources. A target with at most
`fanout` edges keeps them all in every draw.

The coins of a target are random_bits(random_bits(key, target), draw or place in the row), so they
do not depend on the other targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import BoolArray, FloatArray, IntArray
from bliss.kernels.coins import COINS, coin, random_bits
from bliss.kernels.compile import compiled
from bliss.kernels.frontier import fit_scale

_U0, _U1, _U5, _U31 = np.uint64(0), np.uint64(1), np.uint64(5), np.uint64(31)
_BIT = np.uint32(1)


@compiled
def all_edges(indptr: IntArray, dst: IntArray) -> tuple[Any, Any]:
    """Every in-edge of the targets. dst int64[D] -> kept_indptr int64[D + 1], edge int64[F]."""
    kept_indptr = np.zeros(dst.size + 1, np.int64)
    for t in range(dst.size):
        kept_indptr[t + 1] = kept_indptr[t] + indptr[dst[t] + 1] - indptr[dst[t]]
    edge = np.empty(kept_indptr[-1], np.int64)
    for t in range(dst.size):
        shift = indptr[dst[t]] - kept_indptr[t]
        for kept in range(kept_indptr[t], kept_indptr[t + 1]):
            edge[kept] = kept + shift
    return kept_indptr, edge


@compiled
def relabel(indices: IntArray, dst: IntArray, edge: IntArray, number: IntArray) -> tuple[Any, Any]:
    """Number the sources of the kept edges: the targets, then others by first appearance.

    edge     int64[E']  graph edge ids
    number   int[V]     all zero on entry and on return
    returns  source int64[S], row int64[E'] (position in source)
    """
    source = np.empty(dst.size + edge.size + 1, np.int64)
    row = np.empty(edge.size, np.int64)
    count = _U0
    for t in range(dst.size):
        source[count] = dst[t]
        count += _U1
        number[np.uint64(dst[t])] = count
    for kept in range(edge.size):  # a separate loop, so that its cache misses overlap
        row[kept] = indices[np.uint64(edge[kept])]
    for kept in range(edge.size):
        node = np.uint64(row[kept])
        place = np.uint64(number[node])
        is_new = place == _U0
        source[count] = node
        count += np.uint64(is_new)
        place = count if is_new else place
        number[node] = place
        row[kept] = place - _U1
    for s in range(count):
        number[np.uint64(source[s])] = 0
    return source[: np.int64(count)].copy(), row


@compiled
def mark_sources(indptr: IntArray, indices: IntArray, dst: IntArray, mark: BoolArray) -> None:
    """Set mark[j] for every source j of an in-edge of the targets. dst int64[D], mark bool[V]."""
    for t in range(dst.size):
        i = np.uint64(dst[t])
        for edge in range(indptr[i], indptr[i + _U1]):
            mark[np.uint64(indices[np.uint64(edge)])] = True


@compiled
def pick_uniform(
    indptr: IntArray, dst: IntArray, fanout: int, is_replacing: bool, key: np.uint64
) -> tuple[Any, Any, Any]:
    """Keep `fanout` in-edges of each target, uniformly: p_ij = k / |N_i|. O(k) per target.

    Draws without replacement use Floyd's method: for m = |N_i| - k, ..., |N_i| - 1, a place is
    drawn among the first m + 1, and place m is used if it is taken. A bitmap marks taken places.

    returns  kept_indptr int64[D + 1], edge int64[E'], prob float32[E']
    """
    kept_indptr = np.zeros(dst.size + 1, np.int64)
    largest = 0
    for t in range(dst.size):
        degree = indptr[dst[t] + 1] - indptr[dst[t]]
        kept_indptr[t + 1] = kept_indptr[t] + min(degree, fanout)
        largest = max(largest, degree)
    edge = np.empty(kept_indptr[-1], np.int64)
    prob = np.empty(kept_indptr[-1], np.float32)
    taken = np.zeros(largest // 32 + 1, np.uint32)
    for t in range(dst.size):
        i = np.uint64(dst[t])
        first, degree = indptr[i], indptr[i + _U1] - indptr[i]
        start, stop = kept_indptr[t], kept_indptr[t + 1]
        if degree <= fanout:
            for kept in range(start, stop):
                edge[kept] = first + kept - start
                prob[kept] = 1.0
            continue
        own = random_bits(key, i)
        share = np.float32(fanout / degree)
        least = degree if is_replacing else degree - fanout + 1  # places to draw from at first
        more = 0 if is_replacing else 1
        for draw in range(fanout):
            room = least + draw * more
            place = np.uint64(np.int64(coin(own, np.uint64(draw)) * (room / COINS)))
            if more:
                word, bit = place >> _U5, _BIT << np.uint32(place & _U31)
                place = np.uint64(room - 1) if taken[word] & bit else place
                taken[place >> _U5] |= _BIT << np.uint32(place & _U31)
            edge[start + draw] = first + np.int64(place)
            prob[start + draw] = share
        if more:
            for kept in range(start, stop):
                taken[np.uint64(edge[kept] - first) >> _U5] = 0
    return kept_indptr, edge, prob


@compiled
def edge_masses(
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    offset: FloatArray,
    slope: FloatArray,
    value: FloatArray,
    value_table: FloatArray,
    code: IntArray,
    table: FloatArray,
    factor: FloatArray,
    power: float,
    mass: FloatArray,
) -> None:
    """Compute the policy's mass of each in-edge: m_ij = b_j (g_j c_ij^2)^power.

    This is the mass of source j if i were the only target, with c_ij = offset_i + slope_i value_ij,
    value_ij = value[e] or, if there is a table, value_table[value[e]], g_j = table[code[j]] (1 if
    empty) and b_j = factor[j] (1 if empty).

    power  0, 0.5 or 1
    mass   float64[F]  written, rows of the targets one after the other
    """
    at = 0
    for t in range(dst.size):
        for e in range(indptr[dst[t]], indptr[dst[t] + 1]):
            node = np.uint64(indices[e])
            mass[at] = 1.0
            if power > 0.0:
                coefficient = offset[t]
                if slope[t] != 0.0:
                    coded = value_table[np.uint64(value[e])] if value_table.size else value[e]
                    coefficient += slope[t] * coded
                inside = coefficient * coefficient
                if code.size:
                    inside *= table[np.uint64(code[node])]
                mass[at] = np.sqrt(inside) if power == 0.5 else inside
            if factor.size:
                mass[at] *= factor[node]
            at += 1


@compiled
def row_chances(
    indptr: IntArray, dst: IntArray, mass: FloatArray, fanout: int, is_replacing: bool
) -> None:
    """Convert, in place, the masses of each target's in-edges to probabilities that sum to k.

    Without replacement p_ij = min(1, c_i m_ij); with replacement k m_ij / sum m. The entries of a
    row of at most k edges become 1, and those of a row without mass 0.

    mass  float64[F]
    """
    start = 0
    for t in range(dst.size):
        stop = start + indptr[dst[t] + 1] - indptr[dst[t]]
        if stop - start <= fanout:
            mass[start:stop] = 1.0
        else:
            scale = 0.0
            if is_replacing:
                total = 0.0
                for e in range(start, stop):
                    total += mass[e]
                scale = fanout / total if total > 0.0 else 0.0
            else:
                scale = fit_scale(mass[start:stop], np.float64(fanout))
            for e in range(start, stop):
                mass[e] = mass[e] * scale if is_replacing else min(mass[e] * scale, 1.0)
        start = stop


@compiled
def pick_replacing(
    indptr: IntArray, dst: IntArray, chance: FloatArray, fanout: int, key: np.uint64
) -> tuple[Any, Any, Any]:
    """Draw k in-edges of each target with replacement, by inversion.

    chance   float64[F]  k q_ij, from `row_chances`
    returns  kept_indptr int64[D + 1], edge int64[E'], prob float32[E'] (k q_ij)
    """
    kept_indptr = np.zeros(dst.size + 1, np.int64)
    largest = 1
    for t in range(dst.size):
        degree = indptr[dst[t] + 1] - indptr[dst[t]]
        kept_indptr[t + 1] = kept_indptr[t] + min(degree, fanout)
        largest = max(largest, degree)
    edge = np.empty(kept_indptr[-1], np.int64)
    prob = np.empty(kept_indptr[-1], np.float32)
    ladder = np.empty(largest, np.float64)
    start, kept = 0, 0
    for t in range(dst.size):
        i = np.uint64(dst[t])
        first, degree = indptr[i], indptr[i + _U1] - indptr[i]
        own = random_bits(key, i)
        total = 0.0
        for place in range(degree):
            total += chance[start + place]
            ladder[place] = total
        for draw in range(min(degree, fanout)):
            place = draw
            if degree > fanout:
                point = coin(own, np.uint64(draw)) * (total / COINS)
                place = min(int(np.searchsorted(ladder[:degree], point, "right")), degree - 1)
            if chance[start + place] > 0.0:  # a row without mass keeps nothing
                edge[kept] = first + place
                prob[kept] = chance[start + place]
                kept += 1
        kept_indptr[t + 1] = kept
        start += degree
    return kept_indptr, edge[:kept].copy(), prob[:kept].copy()


@compiled
def pick_pivotal(
    indptr: IntArray, dst: IntArray, chance: FloatArray, key: np.uint64
) -> tuple[Any, Any, Any]:
    """Keep in-edge e of each target with probability p_e and a fixed number per target (DepRound).

    The number of kept edges of a target is the sum of its p_e. The edges of a row are compared in
    turn. Each comparison decides one of two open edges with probabilities p and q: if p + q < 1,
    one is dropped and the other stays open with p + q; otherwise one is kept and the other stays
    open with p + q - 1. A coin chooses between them so that each edge keeps its expectation.

    chance   float64[F]  p_e in [0, 1], from `row_chances`
    returns  kept_indptr int64[D + 1], edge int64[E'], prob float32[E']
    """
    kept_indptr = np.zeros(dst.size + 1, np.int64)
    edge = np.empty(chance.size, np.int64)
    prob = np.empty(chance.size, np.float32)
    start, kept = 0, 0
    for t in range(dst.size):
        i = np.uint64(dst[t])
        first, degree = indptr[i], indptr[i + _U1] - indptr[i]
        own = random_bits(key, i)
        open_ = -1  # place of the undecided edge
        left = 0.0
        for place in range(degree):
            winner = -1
            one = chance[start + place]
            if one >= 1.0:
                winner = place
            elif one > 0.0 and open_ < 0:
                open_, left = place, one
            elif one > 0.0:
                toss = coin(own, np.uint64(place)) / COINS
                total = left + one
                if total < 1.0:
                    open_ = place if toss * total < one else open_
                    left = total
                else:
                    stays = toss * (2.0 - total) < 1.0 - one
                    winner = open_ if stays else place
                    open_ = place if stays else open_
                    left = total - 1.0
            if winner >= 0:
                edge[kept] = first + winner
                prob[kept] = chance[start + winner]
                kept += 1
        # the p_e sum to an integer up to rounding, so `left` is close to 0 or 1 here
        if open_ >= 0 and coin(own, np.uint64(degree)) < left * COINS:
            edge[kept] = first + open_
            prob[kept] = chance[start + open_]
            kept += 1
        kept_indptr[t + 1] = kept
        start += degree
    return kept_indptr, edge[:kept].copy(), prob[:kept].copy()
