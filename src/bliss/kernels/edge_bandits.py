"""The compiled kernels of the edge bandits: only the state of observed edges is updated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels.compile import compiled, compiled_reductions
from bliss.kernels.node_bandit import LARGEST_SIGNAL

_U1 = np.uint64(1)

INVISIBLE = 2.0**-25
"""Excess relative to the base that is too small to change a mass in float32."""

SMALLEST_WEIGHT = 1e-300
"""Lower bound of a weight relative to its row's largest: e^-690, too small to affect a draw."""

LARGEST_WEIGHT = 1e150
"""EXP3 rows with a larger sum are divided by it. No overflow: one update grows by at most e."""


@compiled
def exp3_rows(
    degree: IntArray, base: FloatArray, excess_sum: FloatArray, exploration: float
) -> tuple[Any, Any]:
    """offset_i and slope_i of q_ij = offset_i + slope_i excess_ij for each group of edges.

    With w_ij = base_i + excess_ij and W_i = |N_i| base_i + sum excess_i,
    q_ij = (1 - eta) w_ij / W_i + eta / |N_i|: weights are normalised on reading. A row whose q_ij
    equal 1 / |N_i| in float32, such as a row never updated, gets slope 0 and is not read.

    degree      int64[G]    |N_i|, the visible edges
    base        float64[G]
    excess_sum  float64[G]  over the visible edges
    returns     offset float64[G], slope float64[G]
    """
    offset = np.zeros(degree.size, np.float64)
    slope = np.zeros(degree.size, np.float64)
    for g in range(degree.size):
        count = np.float64(degree[g])
        if count > 0.0 and excess_sum[g] > INVISIBLE * base[g]:
            slope[g] = (1.0 - exploration) / (count * base[g] + excess_sum[g])
            offset[g] = slope[g] * base[g] + exploration / count
        elif count > 0.0:
            offset[g] = 1.0 / count
    return offset, slope


@compiled
def exp3_growth(
    degree: IntArray,
    base: FloatArray,
    excess_sum: FloatArray,
    kept_indptr: IntArray,
    row: IntArray,
    edge: IntArray,
    target_scale: FloatArray,
    strength: FloatArray,
    alpha: FloatArray,
    is_attention: bool,
    exploration: float,
    rate: float,
    excess: FloatArray,
) -> Any:
    """Growth of log w_ij by EXP3 as published, for the kept edges of a layer.

        r_ij      = alpha_ij^2 |h_j|^2 / (k_i q_ij^2)
        growth_ij = min(1, delta r_ij / (p_j |N_i|))

    With attention, alpha_ij is (sum over kept of q_ik) times the kept softmax.

    degree, base, excess_sum  see `exp3_rows`
    target_scale              float64[G]  target factor of alpha_ij; empty if it is 1
    strength                  float64[S]  |h_j|^2 / p_j, times the squared source factor of alpha_ij
    alpha                     float[E']   edge factor of alpha_ij; empty if it is 1
    excess                    float64[E]  w_ij - base_i
    returns                   float64[E']
    """
    growth = np.empty(row.size, np.float64)
    square = np.empty(row.size, np.float64)  # q_ij^2
    for g in range(degree.size):
        first, last = np.uint64(kept_indptr[g]), np.uint64(kept_indptr[g + 1])
        count = np.float64(degree[g])
        slope = (1.0 - exploration) / (count * base[g] + excess_sum[g])
        uniform = exploration / count
        total = 0.0
        for kept in range(first, last):
            share = uniform + slope * (base[g] + excess[np.uint64(edge[kept])])
            square[kept] = share * share
            total += share
        step = total if is_attention else 1.0
        if target_scale.size:
            step *= target_scale[g]
        step = rate * step * step / (count * np.float64(last - first))
        for kept in range(first, last):
            growth[kept] = strength[np.uint64(row[kept])] * step
    if alpha.size:
        for kept in range(row.size):
            growth[kept] *= np.float64(alpha[kept]) * np.float64(alpha[kept])
    for kept in range(row.size):
        growth[kept] = min(1.0, growth[kept] / square[kept])
    return growth


@compiled
def variance_rewards(
    kept_indptr: IntArray, message: FloatArray, chance: FloatArray, has_attention: bool
) -> Any:
    """m_ij^2 / q_ij^2 with m_ij the size of a message and q_ij = p_ij / (kept edges of i).

    Attention is a softmax over the kept edges, so m_ij is first multiplied by their estimated share
    of N_i's attention, min(1, sum of their q_ij).

    message  float[E']    alpha_ij |h_j|
    chance   float32[E']  p_ij
    returns  float64[E']
    """
    reward = np.empty(message.size, np.float64)
    for t in range(kept_indptr.size - 1):
        first, last = kept_indptr[t], kept_indptr[t + 1]
        part = 1.0
        if has_attention:
            total = 0.0
            for kept in range(first, last):
                total += np.float64(chance[kept]) / (last - first)
            part = min(total, 1.0)
        for kept in range(first, last):
            share = np.float64(chance[kept]) / (last - first)
            reward[kept] = (part * np.float64(message[kept]) / share) ** 2
    return reward


@compiled
def distance_rewards(
    kept_indptr: IntArray, row: IntArray, alpha: FloatArray, chance: FloatArray, x: FloatArray
) -> Any:
    """(2 z_ij . m_i - |z_ij|^2 + 3 M_i) / (4 M_i), in [0, 1], with messages z_ij = alpha_ij h_j.

    m_i is the mean of i's kept messages, weighted by 1 / p_ij, and M_i the largest |z_ij|^2. Up to
    a constant and a scale, this is minus the squared distance to the mean.

    alpha    float[E']
    chance   float32[E']    p_ij
    x        float32[S, F]  h_j
    returns  float64[E']; 0 where all messages are 0
    """
    reward = np.zeros(row.size, np.float64)
    mean = np.empty(x.shape[1], np.float64)
    for t in range(kept_indptr.size - 1):
        first, last = kept_indptr[t], kept_indptr[t + 1]
        mean[:] = 0.0
        total, largest = 0.0, 0.0
        for kept in range(first, last):
            weight = 1.0 / np.float64(chance[kept])
            total += weight
            size, source = 0.0, row[kept]
            for f in range(mean.size):
                z = np.float64(alpha[kept]) * np.float64(x[source, f])
                mean[f] += weight * z
                size += z * z
            reward[kept] = size
            largest = max(largest, size)
        for kept in range(first, last):
            product, source = 0.0, row[kept]
            for f in range(mean.size):
                product += mean[f] * np.float64(x[source, f])
            product *= np.float64(alpha[kept]) / total
            centred = 2.0 * product - reward[kept] + 3.0 * largest
            if largest > 0.0:  # clipped, because rounding can leave [0, 1]
                reward[kept] = min(max(centred / (4.0 * largest), 0.0), 1.0)
    return reward


@compiled
def neighbour_growth(
    degree: IntArray,
    kept_indptr: IntArray,
    reward: FloatArray,
    chance: FloatArray,
    step: float,
    is_single_play: bool,
) -> Any:
    """Growth of log w_ij: min(1, step r_ij / (q_ij |N_i|)), q_ij = p_ij / (kept edges of i).

    Edges that were kept with certainty have growth 0.

    degree   int64[G]     |N_i|
    reward   float64[E']  r_ij
    chance   float32[E']  p_ij
    returns  float64[E']
    """
    growth = np.empty(reward.size, np.float64)
    for g in range(degree.size):
        first, last = kept_indptr[g], kept_indptr[g + 1]
        count = last - first
        for kept in range(first, last):
            share = np.float64(chance[kept]) / count
            is_fixed = count >= degree[g] if is_single_play else chance[kept] >= 1.0
            grown = min(step * reward[kept] / (share * degree[g]), 1.0)
            growth[kept] = 0.0 if is_fixed else grown
    return growth


@compiled
def grow(
    dst: IntArray,
    indptr: IntArray,
    kept_indptr: IntArray,
    edge: IntArray,
    growth: FloatArray,
    excess: FloatArray,
    scale: FloatArray,
) -> None:
    """Add growth_ij to log w_ij of the kept edges, in order; a repeated edge grows repeatedly.

    With w = base + excess, the step is excess <- excess + w (e^growth - 1), which does not round
    small changes away. A row whose sum exceeds LARGEST_WEIGHT is scaled down as a whole.

    growth  float64[E']    in [0, 1]
    excess  float64[E]     changed in place
    scale   float64[V, 2]  base_i and the sum of excess_ij, changed in place
    """
    factor = np.empty(growth.size, np.float64)
    for kept in range(growth.size):  # only arithmetic, so that the loop is vectorised
        factor[kept] = _expm1(growth[kept])
    for t in range(dst.size):
        i = np.uint64(dst[t])
        base = scale[i, 0]
        for kept in range(np.uint64(kept_indptr[t]), np.uint64(kept_indptr[t + 1])):
            e = np.uint64(edge[kept])
            gain = (base + excess[e]) * factor[kept]
            excess[e] += gain
            scale[i, 1] += gain
        if scale[i, 1] > LARGEST_WEIGHT:
            _scale_down(excess[indptr[i] : indptr[i + _U1]], scale[i])


@compiled
def _scale_down(excess: FloatArray, scale: FloatArray) -> None:
    """Divide a row's weights by LARGEST_WEIGHT. excess [|N_i|], scale [2].

    The base stays above 0, so that an arm with a very small weight can still grow.
    """
    scale[0] = max(scale[0] / LARGEST_WEIGHT, SMALLEST_WEIGHT)
    scale[1] = 0.0
    for e in range(excess.size):
        excess[e] /= LARGEST_WEIGHT
        scale[1] += excess[e]


@compiled
def _expm1(x: float) -> float:
    """e^x - 1 for x in [0, 1], to a relative error of 1e-12: a series for x / 2, then doubling.

    The library function is exact, but prevents the loop around it from being vectorised.
    """
    y = 0.5 * x
    t = 1 / 39916800 + y * (1 / 479001600)
    t = 1 / 362880 + y * (1 / 3628800 + y * t)
    t = 1 / 5040 + y * (1 / 40320 + y * t)
    t = 1 / 120 + y * (1 / 720 + y * t)
    t = 1 / 6 + y * (1 / 24 + y * t)
    t = y * (1.0 + y * (0.5 + y * t))
    return t * (t + 2.0)


@compiled
def scale_free_update(
    dst: IntArray,
    kept_indptr: IntArray,
    edge: IntArray,
    signal: FloatArray,
    step: float,
    weight: FloatArray,
    total: FloatArray,
) -> None:
    """Move log w_ij towards its signal, and update the row sums.

        log w_ij += step (signal_ij - log w_ij)

    signal  float64[E']  log of message size over the layer's level; clipped to +-LARGEST_SIGNAL
    weight  float32[E]   w_ij, changed in place
    total   float64[V]   sum over N_i of w_ij, changed in place
    """
    for t in range(dst.size):
        change = 0.0
        for kept in range(kept_indptr[t], kept_indptr[t + 1]):
            e = edge[kept]
            clipped = min(max(np.float64(signal[kept]), -LARGEST_SIGNAL), LARGEST_SIGNAL)
            before = np.float64(weight[e])
            weight[e] = math.exp((1.0 - step) * math.log(before) + step * clipped)
            change += np.float64(weight[e]) - before
        total[dst[t]] += change


@compiled
def relative_attention(kept_indptr: IntArray, chance: FloatArray, attention: FloatArray) -> Any:
    """Estimate alpha_ij |N_i|, a target's attention relative to its mean, from the kept softmax.

    With a_ij the kept softmax, the sums over N_i of exp(e_ik) and of 1 are estimated from the kept
    edges with weights 1 / p_k. The weight of edge j itself is 1, not 1 / p_j: given that j was
    kept, only then are both sums unbiased. Their ratio is the mean that a_ij is compared with:

        relative_ij = a_ij (1 + sum_{k != j} 1 / p_k) / (a_ij + sum_{k != j} a_ik / p_k)

    chance     float32[E']  p_ij
    attention  float[E']
    returns    float64[E'], 0 for rows whose attention is 0
    """
    relative = np.zeros(attention.size, np.float64)
    for t in range(kept_indptr.size - 1):
        first, last = kept_indptr[t], kept_indptr[t + 1]
        mass = 0.0
        number = 0.0
        for kept in range(first, last):
            share = 1.0 / np.float64(chance[kept])
            mass += attention[kept] * share
            number += share
        for kept in range(first, last):
            surplus = 1.0 / np.float64(chance[kept]) - 1.0
            around = mass - attention[kept] * surplus
            if around > 0.0:
                relative[kept] = attention[kept] * (number - surplus) / around
    return relative


@compiled_reductions
def linear_sizes(
    x: FloatArray, node: IntArray, weight: FloatArray, bias: float, exploration: float
) -> Any:
    """g(x_j) = (1 - eta) |w . x_j + b| + eta of the given nodes.

    x        float32[V, F], node int[C], weight float32[F]
    returns  float32[C]
    """
    size = np.empty(node.size, np.float32)
    for c in range(node.size):
        own = x[np.uint64(node[c])]
        total = np.float32(bias)
        for f in range(weight.size):
            total += own[f] * weight[f]
        size[c] = (1.0 - exploration) * abs(total) + exploration
    return size
