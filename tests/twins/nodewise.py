"""The kernels of `nodewise` and `labor` again, in plain NumPy, target by target.

Names and results are theirs; scratch arguments are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from bliss.arrays import BoolArray, FloatArray, IntArray
from bliss.rng import hashes, short_uniforms, uniforms
from tests.twins.layerwise import fit_scale, frontier_edges, with_changes


def all_edges(pointer: IntArray, start: IntArray, stop: IntArray) -> tuple[IntArray, IntArray]:
    """Every edge of the groups. [G + 1], [F]."""
    edge, owner = frontier_edges(pointer, start, stop)
    return _pointers(owner, pointer.size - 1), edge


def relabel(indices: IntArray, dst: IntArray, edge: IntArray) -> tuple[IntArray, IntArray]:
    """Sources, targets first and others by first appearance, and each edge's place there."""
    distinct, first, inverse = np.unique(
        np.concatenate([dst, indices[edge].astype(np.int64)]),
        return_index=True,
        return_inverse=True,
    )
    appearance = np.argsort(first)
    place = np.argsort(appearance)
    return distinct[appearance], place[inverse[dst.size :]]


def mark_sources(start: IntArray, stop: IntArray, indices: IntArray, nodes: int) -> BoolArray:
    """Whether each node is a source of an edge in the ranges. bool[V]."""
    edge, _ = frontier_edges(np.arange(start.size + 1), start, stop)
    return np.isin(np.arange(nodes), indices[edge])


def group_key(key: np.uint64, node: IntArray, relation: IntArray, g: int) -> np.uint64:
    """The key of a group's coins: of its target and, if there are relations, of its relation."""
    own = np.uint64(hashes(key, node[g : g + 1])[0])
    return np.uint64(hashes(own, relation[g : g + 1])[0]) if relation.size else own


def edge_at(start: IntArray, stop: IntArray, first: int, place: int) -> int:
    """Edge at a place among the edges of the ranges from `first` on."""
    parts = [np.arange(a, b) for a, b in zip(start[first:], stop[first:], strict=True)]
    return int(np.concatenate(parts)[place])


def pick_uniform(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    degree: IntArray,
    node: IntArray,
    relation: IntArray,
    fanout: int,
    is_replacing: bool,
    key: np.uint64,
) -> tuple[IntArray, IntArray, FloatArray]:
    """`fanout` edges of each group, all alike."""
    rows = []
    for g, edges in enumerate(_groups(pointer, start, stop)):
        size = int(degree[g])
        if size <= fanout:
            rows.append([(edge, 1.0) for edge in edges])
            continue
        coins = uniforms(group_key(key, node, relation, g), np.arange(fanout))
        places: list[int] = []
        for draw in range(fanout):
            last = size - 1 if is_replacing else size - fanout + draw
            place = int(coins[draw] * (last + 1))
            places.append(last if place in places and not is_replacing else place)
        rows.append([(edges[place], fanout / size) for place in places])
    return _collected(rows)


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
) -> FloatArray:
    """m_ij = b_j (g_j c_ij^2)^power of each edge. float64[F]."""
    edge, owner = frontier_edges(pointer, start, stop)
    node = indices[edge]
    coefficient = offset[owner]
    if value.size:
        known = value_table[value[edge]] if value_table.size else value[edge]
        coefficient = coefficient + slope[owner] * known
    inside = coefficient**2 * (table[code[node]] if code.size else 1.0)
    if factor.size:
        factor = with_changes(factor, changed, changed_factor)
    return np.asarray(inside**power * (factor[node] if factor.size else 1.0), dtype=np.float64)


def fit_fanouts(weight: FloatArray, degree: IntArray, total: int) -> IntArray:
    """Fanouts clip(c w, 1, |N|), by bisection, with running sums rounded."""
    if total >= degree.sum():
        return degree
    low, high = 0.0, float((degree[weight > 0] / weight[weight > 0]).max())
    for _ in range(200):
        middle = (low + high) / 2
        is_low = np.clip(middle * weight, 1.0, degree).sum() < total
        low, high = (middle, high) if is_low else (low, middle)
    running = np.floor(0.5 + np.cumsum(np.clip(high * weight, 1.0, degree)))
    return np.diff(running, prepend=0.0).astype(np.int64)


def row_chances(degree: IntArray, mass: FloatArray, fanout: int, is_replacing: bool) -> None:
    """Masses become chances that sum to k in each group, in place."""
    for row in _places(degree):
        part = mass[row]
        if part.size <= fanout:
            mass[row] = 1.0
        elif is_replacing:
            mass[row] = fanout * part / (part.sum() or 1.0)
        else:
            mass[row] = np.minimum(part * fit_scale(part, float(fanout)), 1.0)


def pick_replacing(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    degree: IntArray,
    node: IntArray,
    relation: IntArray,
    chance: FloatArray,
    fanout: int,
    key: np.uint64,
) -> tuple[IntArray, IntArray, FloatArray]:
    """k draws of each group, by inversion."""
    rows = []
    groups = zip(_groups(pointer, start, stop), _places(degree), strict=True)
    for g, (edges, row) in enumerate(groups):
        ladder, size = np.cumsum(chance[row]), int(degree[g])
        places: IntArray = np.arange(size)
        if size > fanout:
            points = uniforms(group_key(key, node, relation, g), np.arange(fanout)) * ladder[-1]
            places = np.searchsorted(ladder, points, side="right").clip(max=size - 1)
        rows.append([(edges[p], chance[row][p]) for p in places.tolist() if chance[row][p] > 0])
    return _collected(rows)


def pick_pivotal(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    degree: IntArray,
    node: IntArray,
    relation: IntArray,
    chance: FloatArray,
    key: np.uint64,
) -> tuple[IntArray, IntArray, FloatArray]:
    """DepRound: the edges of a group settle their fates two at a time."""
    rows = []
    groups = zip(_groups(pointer, start, stop), _places(degree), strict=True)
    for g, (edges, row) in enumerate(groups):
        prob = chance[row]
        coins = uniforms(group_key(key, node, relation, g), np.arange(prob.size + 1))
        winners: list[int] = [int(p) for p in np.flatnonzero(prob >= 1)]
        open_: list[tuple[int, float]] = []  # at most one: its place and what is left of it
        for place in np.flatnonzero((prob > 0) & (prob < 1)).tolist():
            if not open_:
                open_ = [(place, float(prob[place]))]
                continue
            rival, left = open_[0]
            one, total = float(prob[place]), left + float(prob[place])
            if total < 1:
                open_ = [(place if coins[place] * total < one else rival, total)]
            elif coins[place] * (2 - total) < 1 - one:
                winners.append(rival)
                open_ = [(place, total - 1)]
            else:
                winners.append(place)
                open_ = [(rival, total - 1)]
        winners += [place for place, left in open_ if coins[prob.size] < left]
        rows.append([(edges[place], prob[place]) for place in winners])
    return _collected(rows)


def _groups(pointer: IntArray, start: IntArray, stop: IntArray) -> Iterator[list[int]]:
    """The edges of each group."""
    edge, owner = frontier_edges(pointer, start, stop)
    for g in range(pointer.size - 1):
        yield edge[owner == g].tolist()


def _places(degree: IntArray) -> Iterator[slice]:
    """Where each group's edges stand in an array over the frontier's edges."""
    stop = np.cumsum(degree)
    yield from map(slice, [0, *stop[:-1].tolist()], stop.tolist())


def _pointers(owner: IntArray, size: int) -> IntArray:
    """Pointers [G + 1] of edges whose groups are `owner`."""
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])


def _collected(
    rows: Iterable[list[tuple[int, float]]],
) -> tuple[IntArray, IntArray, FloatArray]:
    """kept_indptr [G + 1], edge [E'], prob float32[E'] of (edge, prob) by group."""
    rows = list(rows)
    flat = [pair for row in rows for pair in row]
    kept_indptr = np.cumsum([0, *map(len, rows)])
    edge = np.array([pair[0] for pair in flat], np.int64)
    return kept_indptr, edge, np.array([pair[1] for pair in flat], np.float32)


def pick_shared(
    pointer: IntArray,
    start: IntArray,
    stop: IntArray,
    degree: IntArray,
    indices: IntArray,
    chance: FloatArray,
    fanout: int,
    key: np.uint64,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Edges whose source's coin is below p_ij."""
    edge, owner = frontier_edges(pointer, start, stop)
    prob = chance if chance.size else np.minimum(fanout / np.maximum(degree, 1), 1.0)[owner]
    keep = short_uniforms(key, indices[edge]) < prob
    return _pointers(owner[keep], degree.size), edge[keep], prob[keep].astype(np.float32)


def labor_chances(
    frontier_indptr: IntArray,
    row: IntArray,
    num_src: int,
    coefficient: FloatArray,
    fanout: int,
    iterations: int,
    tolerance: float,
) -> FloatArray:
    """p_ij = min(1, c_i pi_ij), pi after so many iterations, c_i by bisection. float64[F]."""
    rows = [slice(a, b) for a, b in pairwise(frontier_indptr.tolist())]
    alpha = coefficient if coefficient.size else np.ones(row.size)

    def fitted(pi: FloatArray) -> FloatArray:  # c_i pi_ij, at least 1 where all edges are kept
        chance = np.empty(row.size)
        for r in rows:
            least = 1.0 if r.stop - r.start <= fanout else 0.0
            chance[r] = np.maximum(_variance_scale(alpha[r], pi[r], fanout) * pi[r], least)
        return chance

    chance, before = fitted(alpha), np.inf
    for _ in range(iterations):
        pi = np.zeros(num_src)
        np.maximum.at(pi, row, chance)
        expected = float(np.minimum(pi, 1).sum())
        if tolerance > 0 and expected > before * (1 - tolerance):
            break
        chance, before = fitted(pi[row]), expected
    return np.minimum(chance, 1)


def _variance_scale(alpha: FloatArray, pi: FloatArray, fanout: int) -> float:
    """c at which sum A^2 (1 / p - 1) is (sum A)^2 (1 / k - 1 / d), by bisection.

    The first is the variance of coins for uncorrelated messages of size 1, the second what the
    paper allows.
    """
    if pi.size <= fanout:
        positive = pi[pi > 0]
        return float(1 / positive.min()) if positive.size else 1.0
    allowed = float(alpha.sum()) ** 2 * (1 / fanout - 1 / pi.size)
    alpha, pi = alpha[alpha > 0], pi[alpha > 0]
    if not alpha.size:
        return 0.0
    low, high = np.log(1e-12 / pi.max()), np.log(1 / pi.min())
    for _ in range(80):
        middle = (low + high) / 2
        chance = np.minimum(np.exp(middle) * pi, 1)
        if (alpha**2 * (1 / chance - 1)).sum() > allowed:
            low = middle
        else:
            high = middle
    return float(np.exp(high))
