"""The kernels of `nodewise` and `labor` again, in plain NumPy, target by target.

Names and results are theirs; scratch arguments are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from bliss.arrays import BoolArray, FloatArray, IntArray
from bliss.rng import hashes, short_uniforms, uniforms
from tests.twins.layerwise import fit_scale, frontier_edges


def all_edges(indptr: IntArray, dst: IntArray) -> tuple[IntArray, IntArray]:
    """Every in-edge of the targets. [D + 1], [F]."""
    edge, owner = frontier_edges(indptr, dst)
    return _pointers(owner, dst.size), edge


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


def mark_sources(indptr: IntArray, indices: IntArray, dst: IntArray, nodes: int) -> BoolArray:
    """Whether each node is a source of an in-edge of the targets. bool[V]."""
    edge, _ = frontier_edges(indptr, dst)
    return np.isin(np.arange(nodes), indices[edge])


def pick_uniform(
    indptr: IntArray, dst: IntArray, fanout: int, is_replacing: bool, key: np.uint64
) -> tuple[IntArray, IntArray, FloatArray]:
    """`fanout` in-edges of each target, all alike."""
    rows = []
    for i, first, degree in _targets(indptr, dst):
        if degree <= fanout:
            rows.append([(first + place, 1.0) for place in range(degree)])
            continue
        coins = uniforms(_own(key, i), np.arange(fanout))
        places: list[int] = []
        for draw in range(fanout):
            last = degree - 1 if is_replacing else degree - fanout + draw
            place = int(coins[draw] * (last + 1))
            places.append(last if place in places and not is_replacing else place)
        rows.append([(first + place, fanout / degree) for place in places])
    return _collected(rows)


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
) -> FloatArray:
    """m_ij = b_j (g_j c_ij^2)^power of each in-edge. float64[F]."""
    edge, owner = frontier_edges(indptr, dst)
    node = indices[edge]
    coefficient = offset[owner]
    if value.size:
        known = value_table[value[edge]] if value_table.size else value[edge]
        coefficient = coefficient + slope[owner] * known
    inside = coefficient**2 * (table[code[node]] if code.size else 1.0)
    return np.asarray(inside**power * (factor[node] if factor.size else 1.0), dtype=np.float64)


def row_chances(
    indptr: IntArray, dst: IntArray, mass: FloatArray, fanout: int, is_replacing: bool
) -> None:
    """Masses become chances that sum to k in each row, in place."""
    for row in _rows(indptr, dst):
        part = mass[row]
        if part.size <= fanout:
            mass[row] = 1.0
        elif is_replacing:
            mass[row] = fanout * part / (part.sum() or 1.0)
        else:
            mass[row] = np.minimum(part * fit_scale(part, float(fanout)), 1.0)


def pick_replacing(
    indptr: IntArray, dst: IntArray, chance: FloatArray, fanout: int, key: np.uint64
) -> tuple[IntArray, IntArray, FloatArray]:
    """k draws of each target, by inversion."""
    rows = []
    for (i, first, degree), row in zip(_targets(indptr, dst), _rows(indptr, dst), strict=True):
        ladder = np.cumsum(chance[row])
        places: IntArray = np.arange(degree)
        if degree > fanout:
            points = uniforms(_own(key, i), np.arange(fanout)) * ladder[-1]
            places = np.searchsorted(ladder, points, side="right").clip(max=degree - 1)
        rows.append([(first + p, chance[row][p]) for p in places.tolist() if chance[row][p] > 0])
    return _collected(rows)


def pick_pivotal(
    indptr: IntArray, dst: IntArray, chance: FloatArray, key: np.uint64
) -> tuple[IntArray, IntArray, FloatArray]:
    """DepRound: the edges of a row settle their fates two at a time."""
    rows = []
    for (i, first, degree), row in zip(_targets(indptr, dst), _rows(indptr, dst), strict=True):
        prob = chance[row]
        coins = uniforms(_own(key, i), np.arange(degree + 1))
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
        winners += [place for place, left in open_ if coins[degree] < left]
        rows.append([(first + place, prob[place]) for place in winners])
    return _collected(rows)


def _own(key: np.uint64, target: int) -> np.uint64:
    """The key of a target's coins."""
    return np.uint64(hashes(key, np.array([target]))[0])


def _targets(indptr: IntArray, dst: IntArray) -> Iterator[tuple[int, int, int]]:
    """Each target with its first edge and its number of edges."""
    for i in dst.tolist():
        yield i, int(indptr[i]), int(indptr[i + 1] - indptr[i])


def _rows(indptr: IntArray, dst: IntArray) -> Iterator[slice]:
    """Where each target's edges stand in an array over the frontier's edges."""
    stop = np.cumsum(indptr[dst + 1] - indptr[dst])
    yield from map(slice, [0, *stop[:-1].tolist()], stop.tolist())


def _pointers(owner: IntArray, size: int) -> IntArray:
    """Pointers [D + 1] of edges whose targets' places are `owner`."""
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])


def _collected(
    rows: Iterable[list[tuple[int, float]]],
) -> tuple[IntArray, IntArray, FloatArray]:
    """kept_indptr [D + 1], edge [E'], prob float32[E'] of (edge, prob) by row."""
    rows = list(rows)
    flat = [pair for row in rows for pair in row]
    kept_indptr = np.cumsum([0, *map(len, rows)])
    edge = np.array([pair[0] for pair in flat], np.int64)
    return kept_indptr, edge, np.array([pair[1] for pair in flat], np.float32)


def pick_shared(
    indptr: IntArray,
    indices: IntArray,
    dst: IntArray,
    chance: FloatArray,
    fanout: int,
    key: np.uint64,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Edges whose source's coin is below p_ij."""
    edge, owner = frontier_edges(indptr, dst)
    degree = (indptr[dst + 1] - indptr[dst])[owner]
    prob = chance if chance.size else np.minimum(fanout / np.maximum(degree, 1), 1.0)
    keep = short_uniforms(key, indices[edge]) < prob
    return _pointers(owner[keep], dst.size), edge[keep], prob[keep].astype(np.float32)


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
