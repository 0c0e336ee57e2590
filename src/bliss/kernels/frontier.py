"""The compiled kernels of sampling: two passes over the frontier's edges, one over its nodes.

Three choices make them fast.

* The first pass reads each edge's source once and adds to one float32 word of that node. Zero means
  "not seen yet", so every contribution is at least `TINY` and no separate mark is needed.
* In the second pass (`bliss.kernels.gathering`), a bitmap with one bit per node shows whether an
  edge is kept. It fits into the fastest caches even for millions of nodes.
* Appends have no branches: store, then advance by 0 or 1.

Neighbourhoods come as `Rows` (`bliss.graph.rows`): G groups of ranges of edge ids, of which group g
has the ranges pointer[g] to pointer[g + 1], and range r the edges start[r] to stop[r].

    pointer  int64[G + 1]
    start    int64[R]
    stop     int64[R]

Indices are cast to unsigned integers before use, because numba tests a signed index for negative
values at each access.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels.coins import COINS, CoinKey, fill_coins
from bliss.kernels.compile import compiled, compiled_reductions

TINY = np.float32(1e-36)
"""Smallest contribution to a seen node's word, because 0 means "not seen". It is a normal float32,
so that it is not flushed to 0 like a subnormal one."""

_ZERO = np.float32(0)
_U0, _U1, _U5, _U31 = np.uint64(0), np.uint64(1), np.uint64(5), np.uint64(31)
_BIT = np.uint32(1)
_SHORT = 4  # edges of a group below which a loop costs more than its turns
CHUNK = 1024
_LARGEST_SCALE = 1e300


@compiled
def group_by_target(source: IntArray, target: IntArray, num_nodes: int) -> tuple[Any, Any]:
    """Sort edges by (target, source), stably: two counting sorts, O(E + V).

    source   int[E]
    target   int[E]
    returns  indptr int64[V + 1], order int64[E] (positions in the input)
    """
    num_edges = source.size
    by_source = np.empty(num_edges, np.int64)
    start = np.zeros(num_nodes + 1, np.int64)
    for e in range(num_edges):
        start[source[e] + 1] += 1
    for node in range(num_nodes):
        start[node + 1] += start[node]
    for e in range(num_edges):
        node = source[e]
        by_source[start[node]] = e
        start[node] += 1
    indptr = np.zeros(num_nodes + 1, np.int64)
    for e in range(num_edges):
        indptr[target[e] + 1] += 1
    for node in range(num_nodes):
        indptr[node + 1] += indptr[node]
    start[:] = indptr
    order = np.empty(num_edges, np.int64)
    for position in range(num_edges):
        e = by_source[position]
        node = target[e]
        order[start[node]] = e
        start[node] += 1
    return indptr, order


@compiled
def scan(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    dst: IntArray,
    offset: FloatArray,
    slope: FloatArray,
    value: FloatArray,
    table: FloatArray,
    seen: FloatArray,
    candidate: IntArray,
) -> int:
    """Find the candidates of a layer and the sums of their squared coefficients: pass one.

    With c_ij = offset_g + slope_g value_ij for the edges of group g, the word of each source j
    becomes the sum of c_ij^2 over its edges. If there is a table, value_ij is table[code_ij], with
    the codes in the place of the values.

    indices    int[E]
    dst        int64[D]      targets, distinct
    offset     float64[G]
    slope      float64[G]    if 0, the group's part of `value` is not read
    value      float[E]      may be empty if every slope is 0; uint8[E] if there is a table
    table      float32[256]  or empty
    seen       float32[V]    all zero on entry; on return, the sums of the candidates
    candidate  int[V + 1]    written: the targets, then other sources by first appearance
    returns    C, the number of candidates
    """
    count = _U0
    for t in range(dst.size):
        candidate[count] = dst[t]
        seen[dst[t]] = TINY
        count += _U1
    at = _U0
    if value.size == 0:  # without reads of the slopes
        for g in range(offset.size):
            constant = max(np.float32(offset[g] * offset[g]), TINY)
            while at < np.uint64(pointer[g + 1]):
                for e in range(np.uint64(start[at]), np.uint64(stop[at])):
                    node = np.uint64(indices[e])
                    before = seen[node]
                    candidate[count] = node
                    count += np.uint64(before == _ZERO)
                    seen[node] = before + constant
                at += _U1
        return int(count)
    for g in range(offset.size):
        shift, factor = offset[g], slope[g]
        constant = max(np.float32(shift * shift), TINY)
        for r in range(np.uint64(pointer[g]), np.uint64(pointer[g + 1])):
            first, last = np.uint64(start[r]), np.uint64(stop[r])
            if factor == 0.0:
                for e in range(first, last):
                    node = np.uint64(indices[e])
                    before = seen[node]
                    candidate[count] = node
                    count += np.uint64(before == _ZERO)
                    seen[node] = before + constant
            elif table.size:
                for e in range(first, last):
                    node = np.uint64(indices[e])
                    before = seen[node]
                    coefficient = shift + factor * table[np.uint64(value[e])]
                    candidate[count] = node
                    count += np.uint64(before == _ZERO)
                    seen[node] = before + max(np.float32(coefficient * coefficient), TINY)
            else:
                for e in range(first, last):
                    node = np.uint64(indices[e])
                    before = seen[node]
                    coefficient = shift + factor * value[e]
                    candidate[count] = node
                    count += np.uint64(before == _ZERO)
                    seen[node] = before + max(np.float32(coefficient * coefficient), TINY)
    return int(count)


@compiled
def inverse(degree: IntArray) -> Any:
    """1 / degree, and 0 where it is 0. int64[N] -> float64[N]."""
    result = np.empty(degree.size, np.float64)
    for n in range(degree.size):
        result[n] = 1.0 / max(degree[n], 1) * min(degree[n], 1)
    return result


@compiled
def collect_mass(
    candidate: IntArray,
    seen: FloatArray,
    code: IntArray,
    table: FloatArray,
    power: float,
    mass: FloatArray,
) -> None:
    """Multiply each candidate's sum by its factor, raise it to `power`, and clear its word.

    candidate  int[C]
    seen       float32[V]    cleared for the candidates
    code       uint8[V]      one byte per node, because each read is a cache miss; or empty
    table      float32[256]  factor of each code, inside the power
    power      0 (equal masses), 0.5 or 1
    mass       float32[C]    written
    """
    if code.size:
        for c in range(candidate.size):
            node = np.uint64(candidate[c])
            mass[c] = seen[node] * table[np.uint64(code[node])]
            seen[node] = _ZERO
    else:
        for c in range(candidate.size):
            node = np.uint64(candidate[c])
            mass[c] = seen[node]
            seen[node] = _ZERO
    if power == 0.5:
        for c in range(mass.size):  # a separate loop, so that it is vectorised
            mass[c] = math.sqrt(mass[c])
    elif power == 0.0:
        mass[:] = 1.0


@compiled
def scale_by_node(
    mass: FloatArray,
    candidate: IntArray,
    factor: FloatArray,
    changed: IntArray,
    changed_factor: FloatArray,
) -> None:
    """Multiply, in place, each candidate's mass by its node's factor.

    factor          float[V]
    changed         int64[N]    nodes with another factor, increasing; usually none
    changed_factor  float32[N]  their factors
    """
    for c in range(mass.size):
        node = np.uint64(candidate[c])
        scale = np.float32(factor[node])
        if changed.size:
            scale = changed_or(scale, node, changed, changed_factor)
        mass[c] *= scale


@compiled
def changed_or(factor: Any, node: np.uint64, changed: IntArray, changed_factor: FloatArray) -> Any:
    """Factor of a node: that of `changed_factor` if the node is in `changed`, which is sorted."""
    place = np.searchsorted(changed, np.int64(node))
    if place < changed.size and changed[place] == np.int64(node):
        return changed_factor[place]
    return factor


@compiled_reductions
def fit_scale(mass: FloatArray, budget: float) -> float:
    """Solve sum_j min(1, c s_j) = k for c, exactly.

    The sum is piecewise linear and increasing in c. The iteration starts at c = k / sum_j s_j and
    repeats c <- (k - #clipped) / (mass not clipped). The clipped set only grows, so the iteration
    stops, at the solution. If fewer than k masses are positive, c is huge and all of them are kept.

    mass     float32[C], C > budget
    """
    total = 0.0
    for c in range(mass.size):
        total += np.float64(mass[c])
    if total <= 0.0:
        return _LARGEST_SCALE
    clipped = 0
    scale = budget / total
    while True:
        limit = 1.0 / scale
        count = 0
        rest = 0.0
        for c in range(mass.size):
            value = np.float64(mass[c])
            is_clipped = value > limit
            count += 1 if is_clipped else 0
            rest += 0.0 if is_clipped else value
        if count <= clipped:
            return scale
        clipped = count
        if count >= budget or rest <= 0.0:
            return _LARGEST_SCALE if rest <= 0.0 else scale
        scale = min((budget - count) / rest, _LARGEST_SCALE)


@compiled_reductions
def fit_scale_paper(mass: FloatArray, budget: float) -> float:
    """The paper's thinning [alg:adjust_scale_factor]: c <- c k / S, tolerance 0.9999, 50 rounds.

    For comparison only: on heavy-tailed masses 50 rounds do not reach the tolerance.

    mass     float32[C], C > budget
    """
    scale = 1.0
    for _ in range(50):
        total = 0.0
        for c in range(mass.size):
            total += min(np.float64(mass[c]) * scale, 1.0)
        if total <= 0.0:
            return _LARGEST_SCALE
        if min(total, budget) / max(total, budget) >= 0.9999:
            break
        scale *= budget / total
    return scale


@compiled
def poisson_keep(
    candidate: IntArray, mass: FloatArray, scale: float, num_dst: int, key: CoinKey
) -> tuple[Any, Any]:
    """Flip one coin per candidate: keep j if u_j < p_j = min(1, c s_j); targets always.

    candidate  int[C]        graph ids; the coin depends on the id, not on the position
    mass       float32[C]
    returns    source int64[S], prob float32[S]; the first num_dst are the targets
    """
    place = np.empty(mass.size + 1, np.int64)
    above = np.empty(CHUNK, np.float64)
    kept = _U0
    start = num_dst
    while start < mass.size:
        nodes, masses = candidate[start : start + CHUNK], mass[start : start + CHUNK]
        fill_coins(key, nodes, above)
        for c in range(nodes.size):  # only arithmetic, so that the loop is vectorised
            above[c] -= np.float64(masses[c]) * (scale * COINS)
        for c in range(nodes.size):
            place[kept] = start + c
            kept += np.uint64(above[c] < 0.0)
        start += CHUNK
    source = np.empty(num_dst + np.int64(kept), np.int64)
    prob = np.empty(source.size, np.float32)
    for s in range(num_dst):
        source[s] = candidate[s]
        prob[s] = 1.0
    for s in range(num_dst, source.size):
        c = place[s - num_dst]
        source[s] = candidate[c]
        prob[s] = min(np.float64(mass[c]) * scale, 1.0)
    return source, prob


@compiled
def edge_weights(
    kept_indptr: IntArray,
    row: IntArray,
    edge: IntArray,
    num_src: int,
    correction: FloatArray,
    target_scale: FloatArray,
    source_scale: FloatArray,
    weight: FloatArray,
) -> Any:
    """alpha_ij c_j, with alpha_ij = target_scale_g source_scale_j, or the given weight_ij.

    kept_indptr   int64[G + 1]  kept edges by group
    row           int64[E']     position of the source among num_src
    correction    float64[S]    c_j, 1 / p_j for Horvitz-Thompson; empty if it is 1 everywhere
    target_scale  float64[G]    empty if weights are given
    source_scale  float64[S]    empty if it is 1 everywhere
    weight        float[E]      empty unless weights are given
    returns       float32[E']
    """
    result = np.empty(row.size, np.float32)
    factor = np.ones(num_src, np.float64)
    if correction.size:
        factor[:] = correction
    if source_scale.size:
        for s in range(num_src):
            factor[s] *= source_scale[s]
    if target_scale.size == 0:
        for kept in range(row.size):
            result[kept] = weight[np.uint64(edge[kept])] * factor[np.uint64(row[kept])]
        return result
    if row.size >= _SHORT * target_scale.size:
        for g in range(target_scale.size):
            scale = target_scale[g]
            for kept in range(np.uint64(kept_indptr[g]), np.uint64(kept_indptr[g + 1])):
                result[kept] = scale * factor[np.uint64(row[kept])]
        return result
    scales = np.empty(row.size + _SHORT)
    _repeat(kept_indptr, target_scale, scales)
    for kept in range(row.size):
        result[kept] = scales[kept] * factor[np.uint64(row[kept])]
    return result


@compiled
def _repeat(kept_indptr: IntArray, target_scale: FloatArray, scales: FloatArray) -> None:
    """Write target_scale_g for each kept edge of group g. float64[E' + _SHORT].

    Four entries are written for every group, and those beyond its end are overwritten by the next:
    loops over groups of one or two edges would wait for their branches.
    """
    for g in range(target_scale.size):
        scale, first = target_scale[g], np.uint64(kept_indptr[g])
        for more in range(np.uint64(_SHORT)):
            scales[first + more] = scale
        for kept in range(first + np.uint64(_SHORT), np.uint64(kept_indptr[g + 1])):
            scales[kept] = scale


@compiled
def rescale_rows(weight: FloatArray, kept_indptr: IntArray, total: FloatArray) -> None:
    """Scale, in place, each group's weights so that they sum to total_g (Hajek).

    weight  float32[E'], total float64[G]
    """
    for g in range(kept_indptr.size - 1):
        current = 0.0
        for kept in range(kept_indptr[g], kept_indptr[g + 1]):
            current += np.float64(weight[kept])
        if current > 0.0:
            factor = total[g] / current
            for kept in range(kept_indptr[g], kept_indptr[g + 1]):
                weight[kept] = np.float32(weight[kept] * factor)


@compiled
def range_sums(pointer: IntArray, start: IntArray, stop: IntArray, value: FloatArray) -> Any:
    """Sum of the values of each group's edges. value float[E] -> float64[G]."""
    total = np.zeros(pointer.size - 1, np.float64)
    for g in range(total.size):
        for r in range(pointer[g], pointer[g + 1]):
            for e in range(np.uint64(start[r]), np.uint64(stop[r])):
                total[g] += np.float64(value[e])
    return total


@compiled
def source_sums(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    degree_indptr: IntArray,
    changed: IntArray,
    changed_scale: FloatArray,
) -> Any:
    """Sum over each group's edges of 1 / sqrt(|N_j|).

    degree_indptr  int64[V + 1]  pointers whose differences are |N_j|
    changed        int64[N]      nodes with another factor, increasing; usually none
    changed_scale  float64[N]    their factors
    returns        float64[G]
    """
    total = np.zeros(pointer.size - 1, np.float64)
    scale = np.empty(CHUNK, np.float64)
    for g in range(total.size):
        own = 0.0
        for r in range(np.uint64(pointer[g]), np.uint64(pointer[g + 1])):
            first, last = start[r], stop[r]
            while first < last:
                size = min(last - first, CHUNK)
                nodes = indices[first : first + size]
                for c in range(size):  # a separate loop, so that its cache misses overlap
                    node = np.uint64(nodes[c])
                    scale[c] = degree_indptr[node + _U1] - degree_indptr[node]
                for c in range(size):  # only arithmetic, so that the loop is vectorised
                    scale[c] = 1.0 / math.sqrt(max(scale[c], 1.0)) * min(scale[c], 1.0)
                for c in range(size):
                    if changed.size:
                        scale[c] = changed_or(scale[c], np.uint64(nodes[c]), changed, changed_scale)
                    own += scale[c]
                first += size
        total[g] = own
    return total


@compiled
def source_influence(
    kept_indptr: IntArray, row: IntArray, weight: FloatArray, influence: FloatArray, num_src: int
) -> Any:
    """Influence of each source of a block: its share in that of the targets, plus its own.

        g_j^2 = sum over kept edges j -> i of weight_ij^2 g_i^2, plus g_j^2 if j is a target

    kept_indptr  int64[D + 1]  kept edges by target
    row          int64[E']     position among the sources, of which the first D are the targets
    weight       float32[E']
    influence    float64[D]    g_i^2
    returns      float64[S]
    """
    total = np.zeros(num_src, np.float64)
    for t in range(influence.size):
        own = influence[t]
        for kept in range(np.uint64(kept_indptr[t]), np.uint64(kept_indptr[t + 1])):
            share = np.float64(weight[kept])
            total[np.uint64(row[kept])] += own * share * share
    for t in range(influence.size):
        total[t] += influence[t]
    return total
