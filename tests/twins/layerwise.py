"""The kernels again, in plain NumPy: slow, short, and what the compiled ones are tested against.

Names and results are those of `bliss.kernels`; scratch arguments are left out. Ranges of edges are
pointer [G + 1], start [R] and stop [R], as in `bliss.graph.Rows`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.kernels.edge_bandits import INVISIBLE, LARGEST_WEIGHT, SMALLEST_WEIGHT
from bliss.kernels.frontier import TINY
from bliss.kernels.node_bandit import (
    CODE_OF_ONE,
    CODES_PER_UNIT,
    LARGEST_SIGNAL,
    SMALLEST_ATTENTION,
)
from bliss.rng import uniforms


def first_outside(ids: IntArray, limit: int) -> int:
    """Position of the first id outside [0, limit), or -1."""
    return next((n for n, value in enumerate(ids.tolist()) if not 0 <= value < limit), -1)


def first_fall(pointers: IntArray) -> int:
    """Position of the first entry smaller than the one before it, or -1."""
    falls = np.flatnonzero(np.diff(pointers) < 0)
    return int(falls[0]) + 1 if falls.size else -1


def frontier_edges(pointer: IntArray, start: IntArray, stop: IntArray) -> tuple[IntArray, IntArray]:
    """Ids of the edges of all groups, group after group, and the group of each. [F], [F]."""
    group = np.repeat(np.arange(pointer.size - 1), np.diff(pointer))  # of each range
    parts = [np.arange(a, b) for a, b in zip(start, stop, strict=True)]
    edge = np.concatenate([np.empty(0, np.int64), *parts])
    return edge, np.repeat(group, stop - start)


def group_by_target(source: IntArray, target: IntArray, num_nodes: int) -> tuple[IntArray, Any]:
    """Sort edges by (target, source), stably."""
    order = np.lexsort((source, target))
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(target, minlength=num_nodes), out=indptr[1:])
    return indptr, order


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
) -> tuple[IntArray, FloatArray]:
    """Candidates (targets first, then by first appearance) and their sums of squares. [C], [C]."""
    edge, owner = frontier_edges(pointer, start, stop)
    coefficient = offset[owner]
    if value.size:
        known = table[value[edge]] if table.size else value[edge]
        coefficient = coefficient + slope[owner] * known
    squares = np.maximum((coefficient * coefficient).astype(np.float32), TINY)
    node = np.concatenate([dst, indices[edge].astype(np.int64)])
    contribution = np.concatenate([np.full(dst.size, TINY), squares])
    distinct, first, inverse = np.unique(node, return_index=True, return_inverse=True)
    total = np.zeros(distinct.size, np.float32)
    np.add.at(total, inverse, contribution)
    appearance = np.argsort(first)
    return distinct[appearance], total[appearance]


def inverse(degree: IntArray) -> FloatArray:
    """1 / degree, and 0 where it is 0. [N]."""
    return np.array([1 / n if n else 0.0 for n in degree.tolist()])


def collect_mass(
    candidate: IntArray, squares: FloatArray, code: IntArray, table: FloatArray, power: float
) -> FloatArray:
    """The sums times their factors, raised to `power`. float32[C] -> float32[C]."""
    inside = squares * table[code[candidate]] if code.size else squares
    return np.sqrt(inside) if power == 0.5 else inside ** np.float32(power)


def scale_by_node(
    mass: FloatArray,
    candidate: IntArray,
    factor: FloatArray,
    changed: IntArray,
    changed_factor: FloatArray,
) -> None:
    """Multiply, in place, by the factor of each candidate's node."""
    mass *= with_changes(factor, changed, changed_factor)[candidate].astype(np.float32)


def with_changes(factor: FloatArray, changed: IntArray, changed_factor: FloatArray) -> FloatArray:
    """The factors of all nodes, where some have changed. [V]."""
    everyone = factor.copy()
    everyone[changed] = changed_factor
    return everyone


def changed_or(
    factor: float, node: int, changed: IntArray, changed_factor: FloatArray
) -> np.float32:
    """Factor of a node, where some have changed."""
    return np.float32(dict(zip(changed.tolist(), changed_factor, strict=True)).get(node, factor))


def range_sums(pointer: IntArray, start: IntArray, stop: IntArray, value: FloatArray) -> FloatArray:
    """Sum of the values of each group's edges. float64[G]."""
    edge, owner = frontier_edges(pointer, start, stop)
    return np.bincount(owner, value[edge], pointer.size - 1).astype(np.float64)


def fit_scale(mass: FloatArray, budget: float) -> float:
    """Solve sum_j min(1, c s_j) = k by sorting: try every possible number of clipped masses."""
    descending = np.sort(mass.astype(np.float64))[::-1]
    rest = np.cumsum(descending[::-1])[::-1]  # rest[m]: mass left when m are clipped
    for clipped in range(mass.size):
        if rest[clipped] <= 0 or clipped >= budget:
            break
        scale = (budget - clipped) / rest[clipped]
        if scale * descending[clipped] <= 1:
            return float(min(scale, 1e300))
    return 1e300


def fit_scale_paper(mass: FloatArray, budget: float) -> float:
    """The paper's thinning, line by line."""
    scale = 1.0
    for _ in range(50):
        total = float(np.minimum(mass.astype(np.float64) * scale, 1).sum())
        if total <= 0:
            return 1e300
        if min(total, budget) / max(total, budget) >= 0.9999:
            break
        scale *= budget / total
    return scale


def poisson_keep(
    candidate: IntArray, mass: FloatArray, scale: float, num_dst: int, key: np.uint64
) -> tuple[IntArray, FloatArray]:
    """Keep j if u_j < min(1, c s_j); targets always. [S], [S]."""
    prob = np.minimum(mass.astype(np.float64) * scale, 1.0)
    prob[:num_dst] = 1.0
    keep = uniforms(key, candidate) < prob
    return candidate[keep].astype(np.int64), prob[keep].astype(np.float32)


def source_sums(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    degree_indptr: IntArray,
    changed: IntArray,
    changed_scale: FloatArray,
) -> FloatArray:
    """Sum over each group's edges of 1 / sqrt(|N_j|). float64[G]."""
    degree = np.diff(degree_indptr)
    scale = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0.0)
    scale = with_changes(scale, changed, changed_scale)
    return range_sums(pointer, start, stop, scale[indices])


def source_influence(
    kept_indptr: IntArray, row: IntArray, weight: FloatArray, influence: FloatArray, num_src: int
) -> FloatArray:
    """g_j^2 of each source: shares in those of the targets, plus its own. float64[S]."""
    owner = np.repeat(np.arange(influence.size), np.diff(kept_indptr))
    shares = influence[owner] * weight.astype(np.float64) ** 2
    total = np.bincount(row, shares, num_src).astype(np.float64)
    total[: influence.size] += influence
    return total


def gather(
    pointer: IntArray, start: IntArray, stop: IntArray, indices: IntArray, source: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Kept edges by group: kept_indptr [G + 1], row [E'], edge [E']."""
    edge, owner = frontier_edges(pointer, start, stop)
    groups = pointer.size - 1
    position = np.full(max(source.max(initial=0), indices.max(initial=0)) + 1, -1, np.int64)
    position[source] = np.arange(source.size)
    row = position[indices[edge]]
    kept = row >= 0
    kept_indptr = np.zeros(groups + 1, np.int64)
    np.cumsum(np.bincount(owner[kept], minlength=groups), out=kept_indptr[1:])
    return kept_indptr, row[kept], edge[kept]


def edge_weights(
    kept_indptr: IntArray,
    row: IntArray,
    edge: IntArray,
    num_src: int,
    correction: FloatArray,
    target_scale: FloatArray,
    source_scale: FloatArray,
    weight: FloatArray,
) -> FloatArray:
    """alpha_ij c_j of the kept edges. float32[E']."""
    owner = np.repeat(np.arange(kept_indptr.size - 1), np.diff(kept_indptr))
    alpha: FloatArray = target_scale[owner] if target_scale.size else weight[edge]
    if source_scale.size:
        alpha = alpha * source_scale[row]
    if correction.size:
        assert correction.size == num_src
        alpha = alpha * correction[row]
    return alpha.astype(np.float32)


def rescale_rows(weight: FloatArray, kept_indptr: IntArray, total: FloatArray) -> FloatArray:
    """Weights scaled so that those of target i sum to total_i. float32[E']."""
    owner = np.repeat(np.arange(total.size), np.diff(kept_indptr))
    current = np.bincount(owner, weights=weight, minlength=total.size)
    positive = current > 0
    factor = np.where(positive, total / np.where(positive, current, 1), 1)
    return (weight * factor[owner]).astype(np.float32)


def exp3_rows(
    degree: IntArray, base: FloatArray, excess_sum: FloatArray, exploration: float
) -> tuple[FloatArray, FloatArray]:
    """offset_i and slope_i with q_ij = offset_i + slope_i excess_ij. [G], [G]."""
    some = np.maximum(degree, 1)
    touched = (excess_sum > INVISIBLE * base) & (degree > 0)
    slope = np.where(touched, (1 - exploration) / (some * base + excess_sum), 0)
    offset = np.where(touched, slope * base + exploration / some, 1 / some)
    return np.where(degree > 0, offset, 0), slope


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
) -> FloatArray:
    """Growth of the kept edges' log weights by EXP3, all groups at once. float64[E']."""
    kept_degree, groups = np.diff(kept_indptr), degree.size
    owner = np.repeat(np.arange(groups), kept_degree)
    degree = degree.astype(np.float64)[owner]
    weight = base[owner] + excess[edge]
    total = degree * base[owner] + excess_sum[owner]
    q = (1 - exploration) * weight / total + exploration / degree
    coefficient: FloatArray = alpha.astype(np.float64) if alpha.size else np.ones(row.size)
    if target_scale.size:
        coefficient = coefficient * target_scale[owner]
    if is_attention:
        coefficient = coefficient * np.bincount(owner, weights=q, minlength=groups)[owner]
    reward = coefficient**2 * strength[row] / (kept_degree[owner] * q**2)  # r_ij / p_j
    return np.minimum(1.0, rate * reward / degree)


def variance_rewards(
    kept_indptr: IntArray, message: FloatArray, chance: FloatArray, has_attention: bool
) -> FloatArray:
    """m_ij^2 / q_ij^2, with attention of the kept share of N_i."""
    count = np.diff(kept_indptr)
    owner = np.repeat(np.arange(count.size), count)
    share = chance.astype(np.float64) / count[owner]
    part = np.minimum(np.bincount(owner, share, minlength=count.size), 1.0)[owner]
    scaled = message.astype(np.float64) * (part if has_attention else 1.0)
    return np.asarray(np.square(scaled / share))


def distance_rewards(
    kept_indptr: IntArray, row: IntArray, alpha: FloatArray, chance: FloatArray, x: FloatArray
) -> FloatArray:
    """(2 z_ij . m_i - |z_ij|^2 + 3 M_i) / (4 M_i), target by target."""
    reward = np.zeros(row.size)
    for first, last in pairwise(kept_indptr.tolist()):
        kept = slice(first, last)
        z = alpha[kept, None].astype(np.float64) * x[row[kept]]
        size = np.square(z).sum(1)
        if not size.any():
            continue
        mean = np.average(z, axis=0, weights=1 / chance[kept].astype(np.float64))
        reward[kept] = np.clip((2 * z @ mean - size + 3 * size.max()) / (4 * size.max()), 0, 1)
    return reward


def neighbour_growth(
    degree: IntArray,
    kept_indptr: IntArray,
    reward: FloatArray,
    chance: FloatArray,
    step: float,
    is_single_play: bool,
) -> FloatArray:
    """min(1, step r_ij / (q_ij |N_i|)) of the kept edges, 0 where there was no choice."""
    count = np.diff(kept_indptr)
    owner = np.repeat(np.arange(degree.size), count)
    share = chance.astype(np.float64) / count[owner]
    growth = np.minimum(step * reward / (share * degree[owner]), 1.0)
    growth[(count >= degree)[owner] if is_single_play else chance >= 1] = 0.0
    return growth


def grow(
    dst: IntArray,
    indptr: IntArray,
    kept_indptr: IntArray,
    edge: IntArray,
    growth: FloatArray,
    excess: FloatArray,
    scale: FloatArray,
) -> None:
    """log w_ij += growth_ij for the kept edges, in place; repeated edges grow repeatedly."""
    target = np.repeat(dst, np.diff(kept_indptr))
    total = np.zeros(excess.size)
    np.add.at(total, edge, growth)
    distinct, first = np.unique(edge, return_index=True)
    owner = target[first]
    gain = (scale[owner, 0] + excess[distinct]) * np.expm1(total[distinct])
    excess[distinct] += gain
    np.add.at(scale[:, 1], owner, gain)
    _scale_down(dst, indptr, excess, scale)


def _scale_down(dst: IntArray, indptr: IntArray, excess: FloatArray, scale: FloatArray) -> None:
    for i in dst[scale[dst, 1] > LARGEST_WEIGHT]:
        in_edges = slice(indptr[i], indptr[i + 1])
        excess[in_edges] /= LARGEST_WEIGHT
        base_i = max(scale[i, 0] / LARGEST_WEIGHT, SMALLEST_WEIGHT)
        scale[i] = base_i, excess[in_edges].sum()


def scale_free_update(
    dst: IntArray,
    kept_indptr: IntArray,
    edge: IntArray,
    signal: FloatArray,
    step: float,
    weight: FloatArray,
    total: FloatArray,
) -> None:
    """Move the kept edges' log weights towards their signals, in place."""
    owner = np.repeat(np.arange(dst.size), np.diff(kept_indptr))
    before = weight[edge].astype(np.float64)
    clipped = np.clip(signal, -LARGEST_SIGNAL, LARGEST_SIGNAL)
    weight[edge] = np.exp((1 - step) * np.log(before) + step * clipped)
    total[dst] += np.bincount(owner, weights=weight[edge] - before, minlength=dst.size)


def relative_attention(
    kept_indptr: IntArray, chance: FloatArray, attention: FloatArray
) -> FloatArray:
    """alpha_ij |N_i| estimated from the kept softmax. float64[E']."""
    rows = kept_indptr.size - 1
    owner = np.repeat(np.arange(rows), np.diff(kept_indptr))
    share = 1 / chance.astype(np.float64)
    mass = np.bincount(owner, weights=attention * share, minlength=rows)[owner]
    number = np.bincount(owner, weights=share, minlength=rows)[owner]
    around = mass - attention * (share - 1)
    usable = around > 0
    relative = attention * (number - (share - 1)) / np.where(usable, around, 1)
    return np.where(usable, relative, 0)


def source_scores(
    kept_indptr: IntArray, row: IntArray, attention: FloatArray, score: FloatArray
) -> FloatArray:
    """Observation of each source's log a_j from the kept softmax. float64[S]."""
    rows, number = kept_indptr.size - 1, np.diff(kept_indptr)
    owner = np.repeat(np.arange(rows), number)
    seen = np.log(np.maximum(attention.astype(np.float64), SMALLEST_ATTENTION))
    left = np.bincount(owner, weights=seen - score[row], minlength=rows)
    own = left / np.maximum(number, 1)
    usable = (number > 1)[owner]
    total = np.bincount(row[usable], weights=(seen - own[owner])[usable], minlength=score.size)
    count = np.bincount(row[usable], minlength=score.size)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def coded_sums(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    indices: IntArray,
    code: IntArray,
    table: FloatArray,
    edge_code: IntArray,
    edge_table: FloatArray,
) -> FloatArray:
    """Sum over N_g of table[code_j], times edge_table[edge_code_ij] if given. float64[G]."""
    value = table[code[indices]].astype(np.float64)
    if edge_code.size:
        value = value * edge_table[edge_code]
    return range_sums(pointer, start, stop, value)


def fit_scores(
    indptr: IntArray,
    indices: IntArray,
    num_nodes: int,
    edge_code: IntArray,
    table: FloatArray,
    rounds: int,
) -> FloatArray:
    """Scores a_j of attention a_j / sum over N_i of a_k with the given column sums. float64[V]."""
    groups = indptr.size - 1
    target = np.repeat(np.arange(groups), np.diff(indptr))
    column = np.bincount(indices, weights=table[edge_code], minlength=num_nodes)
    score = np.ones(num_nodes)
    for _ in range(rounds):
        total = np.bincount(target, weights=score[indices], minlength=groups)
        inverse = np.bincount(indices, weights=1 / total[target], minlength=num_nodes)
        score = np.where(inverse > 0, column / np.where(inverse > 0, inverse, 1), score)
    return score


def follow(
    source: IntArray,
    signal: FloatArray,
    level: float,
    memory: float,
    prior: float,
    arm: FloatArray,
) -> tuple[FloatArray, float, float, float]:
    """Update the running means of the observed nodes, in place; returns their estimates."""
    x = np.clip(signal.astype(np.float64) - level, -LARGEST_SIGNAL, LARGEST_SIGNAL)
    mean, seen = arm[source].astype(np.float64).T
    again, longest = seen > 0, 2 / memory - 1
    missed = np.square(x - mean)[again] / (1 + 1 / np.minimum(seen[again], longest))
    seen += 1
    mean += np.maximum(1 / seen, memory) * (x - mean)
    arm[source] = np.stack([mean, seen], axis=1)
    effective = np.minimum(seen, longest)
    squares = float(np.square(x[again]).sum())
    estimate = mean * effective / (effective + prior)
    return estimate, float(missed.sum()), squares, float(again.sum())


def encode(source: IntArray, logarithm: FloatArray, code: IntArray) -> None:
    """Write a logarithm per source as a byte, in place."""
    near = CODES_PER_UNIT * logarithm + CODE_OF_ONE + 0.5
    code[source] = np.clip(near, 0, 255).astype(np.uint8)


def linear_sizes(
    x: FloatArray, node: IntArray, weight: FloatArray, bias: float, exploration: float
) -> FloatArray:
    """g(x_j) = (1 - eta) |w . x_j + b| + eta. float32[C]."""
    inner = x[node].astype(np.float64) @ weight.astype(np.float64) + bias
    return ((1 - exploration) * np.abs(inner) + exploration).astype(np.float32)
