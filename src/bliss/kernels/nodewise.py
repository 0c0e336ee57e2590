"""The compiled kernels of node-wise sampling: each group chooses among its own edges.

Groups are those of `Rows`, as in `bliss.kernels.frontier`: a target's in-edges, or those under one
relation. A draw returns three arrays, with edges by group: kept_indptr int64[G + 1], edge int64[E']
(graph edge ids) and prob float32[E'], the probability of each kept edge or, with replacement, the
expected number of times it is drawn. `relabel` then numbers the sources. A group with at most
`fanout` edges keeps them all in every draw.

The coins of a group are random_bits(own, draw or place among the group's edges), with own from
`group_key`. So they depend neither on other targets nor on edges that are not visible.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import BoolArray, FloatArray, IntArray
from bliss.kernels.coins import COINS, CoinKey, coin, node_key, random_bits
from bliss.kernels.compile import compiled
from bliss.kernels.frontier import changed_or, fit_scale

_U0, _U1, _U5, _U31 = np.uint64(0), np.uint64(1), np.uint64(5), np.uint64(31)
_BIT = np.uint32(1)


@compiled
def all_edges(pointer: IntArray, start: IntArray, stop: IntArray) -> tuple[Any, Any]:
    """Every edge of the groups: kept_indptr int64[G + 1], edge int64[F]."""
    groups = pointer.size - 1
    kept_indptr = np.zeros(groups + 1, np.int64)
    for g in range(groups):
        kept_indptr[g + 1] = kept_indptr[g]
        for r in range(pointer[g], pointer[g + 1]):
            kept_indptr[g + 1] += stop[r] - start[r]
    edge = np.empty(kept_indptr[-1], np.int64)
    kept = 0
    for g in range(groups):
        for r in range(pointer[g], pointer[g + 1]):
            for e in range(start[r], stop[r]):
                edge[kept] = e
                kept += 1
    return kept_indptr, edge


@compiled
def group_key(key: CoinKey, node: IntArray, relation: IntArray, g: int) -> np.uint64:
    """Key of the coins of group g.

    node      int64[G]  target of each group
    relation  int64[G]  relation of each group; empty if a target has one group
    """
    own = np.uint64(node[g])
    own = random_bits(node_key(key, own), own)
    return random_bits(own, np.uint64(relation[g])) if relation.size else own


@compiled
def edge_at(start: IntArray, stop: IntArray, first: int, place: Any) -> int:
    """Edge at a place among the edges of a group whose ranges begin with range `first`."""
    r = first
    while place >= stop[r] - start[r]:
        place -= stop[r] - start[r]
        r += 1
    return int(start[r] + place)


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
def mark_sources(start: IntArray, stop: IntArray, indices: IntArray, mark: BoolArray) -> None:
    """Set mark[j] for every source j of an edge in the ranges. mark bool[V]."""
    for r in range(start.size):
        for edge in range(start[r], stop[r]):
            mark[np.uint64(indices[np.uint64(edge)])] = True


@compiled
def pick_uniform(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    degree: IntArray,
    node: IntArray,
    relation: IntArray,
    fanout: int,
    is_replacing: bool,
    key: CoinKey,
) -> tuple[Any, Any, Any]:
    """Keep `fanout` edges of each group, uniformly: p_ij = k / |N|. O(k) per group.

    Draws without replacement use Floyd's method: for m = |N| - k, ..., |N| - 1, a place is drawn
    among the first m + 1, and place m is used if it is taken. A bitmap marks taken places.

    degree          int64[G]  |N|, number of edges of each group
    node, relation  see `group_key`
    returns         kept_indptr int64[G + 1], edge int64[E'], prob float32[E']
    """
    groups = degree.size
    kept_indptr = np.zeros(groups + 1, np.int64)
    largest = 0
    for g in range(groups):
        kept_indptr[g + 1] = kept_indptr[g] + min(degree[g], fanout)
        largest = max(largest, degree[g])
    edge = np.empty(kept_indptr[-1], np.int64)
    prob = np.empty(kept_indptr[-1], np.float32)
    taken = np.zeros(largest // 32 + 1, np.uint32)
    for g in range(groups):
        size = degree[g]
        first, last = kept_indptr[g], kept_indptr[g + 1]
        if size <= fanout:
            kept = first
            for r in range(pointer[g], pointer[g + 1]):
                for e in range(start[r], stop[r]):
                    edge[kept] = e
                    prob[kept] = 1.0
                    kept += 1
            continue
        own = group_key(key, node, relation, g)
        share = np.float32(fanout / size)
        least = size if is_replacing else size - fanout + 1  # places to draw from at first
        more = 0 if is_replacing else 1
        for draw in range(fanout):
            room = least + draw * more
            place = np.uint64(np.int64(coin(own, np.uint64(draw)) * (room / COINS)))
            if more:
                word, bit = place >> _U5, _BIT << np.uint32(place & _U31)
                place = np.uint64(room - 1) if taken[word] & bit else place
                taken[place >> _U5] |= _BIT << np.uint32(place & _U31)
            edge[first + draw] = np.int64(place)
            prob[first + draw] = share
        for kept in range(first, last):
            place = np.uint64(edge[kept])
            taken[place >> _U5] = 0
            edge[kept] = edge_at(start, stop, pointer[g], np.int64(place))
    return kept_indptr, edge, prob


@compiled
def fit_fanouts(weight: FloatArray, degree: IntArray, total: int) -> Any:
    """Fanouts in proportion to a weight, with a given number of edges in all.

        k_g = min(|N_g|, max(1, c w_g)),  sum_g k_g = total

    Newton's method finds c, between bounds. Running sums are rounded, so that the total stays:
    each k_g is rounded down or up.

    weight   float64[G]  not negative
    degree   int64[G]    |N_g|
    returns  int64[G]    0 for groups without edges
    """
    groups = degree.size
    edges, high = 0, 0.0
    for g in range(groups):
        edges += degree[g]
        if weight[g] > 0.0:
            high = max(high, degree[g] / weight[g])
    found = degree.copy()
    if total >= edges:
        return found
    low, scale = 0.0, 0.5 * high
    for _ in range(100):
        kept, free = 0.0, 0.0
        for g in range(groups):
            wanted = scale * weight[g]
            if wanted >= degree[g]:
                kept += degree[g]
            elif wanted <= 1.0:
                kept += 1.0
            else:
                kept += wanted
                free += weight[g]
        gap = total - kept
        if abs(gap) <= 1e-9 * total:
            break
        if gap > 0.0:
            low = scale
        else:
            high = scale
        scale = scale + gap / free if free > 0.0 else high
        if not low < scale < high:
            scale = 0.5 * (low + high)
    running, before = 0.5, 0
    for g in range(groups):
        running += min(np.float64(degree[g]), max(1.0, scale * weight[g]))
        after = int(running)
        found[g] = min(max(after - before, 1), degree[g])
        before = after
    return found


@compiled
def edge_masses(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    offset: FloatArray,
    slope: FloatArray,
    value: FloatArray,
    value_table: FloatArray,
    code: IntArray,
    table: FloatArray,
    factor: FloatArray,
    changed: IntArray,
    changed_factor: FloatArray,
    power: float,
    mass: FloatArray,
) -> None:
    """Compute the policy's mass of each edge: m_ij = b_j (g_j c_ij^2)^power.

    This is the mass of source j if edge j -> i were the only one, with
    c_ij = offset_g + slope_g value_ij, value_ij = value[e] or, if there is a table,
    value_table[value[e]], g_j = table[code[j]] (1 if empty) and b_j = factor[j] (1 if empty).

    changed, changed_factor  see `frontier.scale_by_node`
    power                    0, 0.5 or 1
    mass                     float64[F]  written, groups one after the other
    """
    at = 0
    for g in range(offset.size):
        for r in range(pointer[g], pointer[g + 1]):
            for e in range(start[r], stop[r]):
                node = np.uint64(indices[e])
                mass[at] = 1.0
                if power > 0.0:
                    coefficient = offset[g]
                    if slope[g] != 0.0:
                        coded = value_table[np.uint64(value[e])] if value_table.size else value[e]
                        coefficient += slope[g] * coded
                    inside = coefficient * coefficient
                    if code.size:
                        inside *= table[np.uint64(code[node])]
                    mass[at] = np.sqrt(inside) if power == 0.5 else inside
                if factor.size:
                    scale = factor[node]
                    if changed.size:
                        scale = changed_or(scale, node, changed, changed_factor)
                    mass[at] *= scale
                at += 1


@compiled
def row_chances(degree: IntArray, mass: FloatArray, fanout: int, is_replacing: bool) -> None:
    """Convert, in place, the masses of each group's edges to probabilities that sum to k.

    Without replacement p_ij = min(1, c_g m_ij); with replacement k m_ij / sum m. The entries of a
    group of at most k edges become 1, and those of a group without mass 0.

    degree  int64[G]    number of edges of each group
    mass    float64[F]
    """
    start = 0
    for g in range(degree.size):
        stop = start + degree[g]
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
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    degree: IntArray,
    node: IntArray,
    relation: IntArray,
    chance: FloatArray,
    fanout: int,
    key: CoinKey,
) -> tuple[Any, Any, Any]:
    """Draw k edges of each group with replacement, by inversion.

    degree          int64[G]    number of edges of each group
    node, relation  see `group_key`
    chance          float64[F]  k q_ij, from `row_chances`
    returns         kept_indptr int64[G + 1], edge int64[E'], prob float32[E'] (k q_ij)
    """
    groups = degree.size
    kept_indptr = np.zeros(groups + 1, np.int64)
    largest, most = 1, 0
    for g in range(groups):
        most += min(degree[g], fanout)
        largest = max(largest, degree[g])
    edge = np.empty(most, np.int64)
    prob = np.empty(most, np.float32)
    ladder = np.empty(largest, np.float64)
    before, kept = 0, 0
    for g in range(groups):
        size = degree[g]
        own = group_key(key, node, relation, g)
        total = 0.0
        for place in range(size):
            total += chance[before + place]
            ladder[place] = total
        for draw in range(min(size, fanout)):
            place = draw
            if size > fanout:
                point = coin(own, np.uint64(draw)) * (total / COINS)
                place = min(int(np.searchsorted(ladder[:size], point, "right")), size - 1)
            if chance[before + place] > 0.0:  # a group without mass keeps nothing
                edge[kept] = edge_at(start, stop, pointer[g], place)
                prob[kept] = chance[before + place]
                kept += 1
        kept_indptr[g + 1] = kept
        before += size
    return kept_indptr, edge[:kept].copy(), prob[:kept].copy()


@compiled
def pick_pivotal(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    degree: IntArray,
    node: IntArray,
    relation: IntArray,
    chance: FloatArray,
    key: CoinKey,
) -> tuple[Any, Any, Any]:
    """Keep edge e of each group with probability p_e and a fixed number per group (DepRound).

    The number of kept edges of a group is the sum of its p_e. The edges of a group are compared in
    turn. Each comparison decides one of two open edges with probabilities p and q: if p + q < 1,
    one is dropped and the other stays open with p + q; otherwise one is kept and the other stays
    open with p + q - 1. A coin chooses between them so that each edge keeps its expectation.

    degree          int64[G]    number of edges of each group
    node, relation  see `group_key`
    chance          float64[F]  p_e in [0, 1], from `row_chances`
    returns         kept_indptr int64[G + 1], edge int64[E'], prob float32[E']
    """
    kept_indptr = np.zeros(degree.size + 1, np.int64)
    edge = np.empty(chance.size, np.int64)
    prob = np.empty(chance.size, np.float32)
    before, kept = 0, 0
    for g in range(degree.size):
        size = degree[g]
        own = group_key(key, node, relation, g)
        open_ = -1  # place of the undecided edge
        left = 0.0  # its probability
        for place in range(size):
            winner = -1
            current = chance[before + place]
            if current >= 1.0:
                winner = place
            elif current > 0.0 and open_ < 0:
                open_, left = place, current
            elif current > 0.0:
                toss = coin(own, np.uint64(place)) / COINS
                total = left + current
                if total < 1.0:
                    open_ = place if toss * total < current else open_
                    left = total
                else:
                    stays = toss * (2.0 - total) < 1.0 - current
                    winner = open_ if stays else place
                    open_ = place if stays else open_
                    left = total - 1.0
            if winner >= 0:
                edge[kept] = edge_at(start, stop, pointer[g], winner)
                prob[kept] = chance[before + winner]
                kept += 1
        # the p_e sum to an integer up to rounding, so `left` is close to 0 or 1 here
        if open_ >= 0 and coin(own, np.uint64(size)) < left * COINS:
            edge[kept] = edge_at(start, stop, pointer[g], open_)
            prob[kept] = chance[before + open_]
            kept += 1
        kept_indptr[g + 1] = kept
        before += size
    return kept_indptr, edge[:kept].copy(), prob[:kept].copy()
