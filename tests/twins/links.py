"""The kernels of `links` again, in plain NumPy: slow, and what those are tested against."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.rng import hashes, uniforms


def first_unsorted(indptr: IntArray, indices: IntArray) -> int:
    rows = [np.diff(indices[start:stop]) for start, stop in pairwise(indptr)]
    falls = [i for i, row in enumerate(rows) if (row < 0).any()]
    return falls[0] if falls else -1


def lower_bound(values: IntArray, start: int, stop: int, value: int) -> int:
    return start + int(np.searchsorted(values[start:stop], value))


def edges_of_pairs(
    indptr: IntArray, indices: IntArray, is_sorted: bool, source: IntArray, target: IntArray
) -> tuple[IntArray, IntArray]:
    targets = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    pair, edge = np.nonzero((source[:, None] == indices) & (target[:, None] == targets))
    return pair, edge


def edges_of_codes(
    indptr: IntArray, indices: IntArray, codes: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    target, source = np.divmod(codes, indptr.size - 1)
    edge = np.unique(edges_of_pairs(indptr, indices, True, source, target)[1])
    node, count = np.unique(np.searchsorted(indptr, edge, side="right") - 1, return_counts=True)
    return edge, node, count


def split_rows(
    indptr: IntArray, dst: IntArray, node: IntArray, edge: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    return split_ranges(indptr[dst], indptr[dst + 1], dst, node, edge)


def split_ranges(
    first: IntArray, last: IntArray, target: IntArray, node: IntArray, edge: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    ranges = []
    for low, high in zip(first, last, strict=True):
        hidden = edge[(edge >= low) & (edge < high)]
        ranges.append((np.concatenate([[low], hidden + 1]), np.concatenate([hidden, [high]])))
    degree = np.array([(stop - start).sum() for start, stop in ranges])
    pointer = np.cumsum([0, *(start.size for start, _ in ranges)])
    start, stop = (np.concatenate(parts) for parts in zip(*ranges, strict=True))
    return pointer, start, stop, degree


def typed_ranges(dst: IntArray, group_ptr: IntArray, group_start: IntArray) -> tuple[IntArray, ...]:
    target_ptr = np.concatenate([[0], np.cumsum(group_ptr[dst + 1] - group_ptr[dst])])
    parts = [np.arange(group_ptr[i], group_ptr[i + 1]) for i in dst]
    group = np.concatenate([np.empty(0, np.int64), *parts])
    start, stop = group_start[group], group_start[group + 1]
    return target_ptr, start, stop, stop - start


def is_edge(indptr: IntArray, indices: IntArray, is_sorted: bool, j: int, i: int) -> bool:
    return j in indices[indptr[i] : indptr[i + 1]].tolist()


def draw_node(key: np.uint64, counter: int, ladder: FloatArray, num_nodes: int) -> int:
    share = uniforms(key, np.array([counter]))[0]
    if not ladder.size:
        return int(share * num_nodes)
    return int(np.searchsorted(ladder, share * ladder[-1], side="right"))


def was_edge(
    indptr: IntArray, indices: IntArray, time: IntArray, j: int, i: int, latest: int
) -> bool:
    row = slice(indptr[i], indptr[i + 1])
    return bool(((indices[row] == j) & (time[row] <= latest)).any())


def draw_negatives(
    key: np.uint64,
    place: IntArray,
    number: IntArray,
    source: IntArray,
    source_ladder: FloatArray,
    target_ladder: FloatArray,
    indptr: IntArray,
    indices: IntArray,
    is_sorted: bool,
    known: IntArray,
    tries: int,
    time: IntArray,
    latest: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    nodes = indptr.size - 1
    drawn = []
    for n in range(place.size):
        own = hashes(hashes(key, place[n : n + 1])[0], number[n : n + 1])[0]
        for t in range(tries):
            j = source[n] if source.size else draw_node(own, 2 * t, source_ladder, nodes)
            i = draw_node(own, 2 * t + 1, target_ladder, nodes)
            linked = (
                was_edge(indptr, indices, time, j, i, latest[n])
                if latest.size
                else is_edge(indptr, indices, True, j, i)
            )
            is_known = j == i or j * nodes + i in known or linked
            if not is_known:
                break
        drawn.append((j, i, is_known))
    src, dst, left = np.array(drawn).T
    return src, dst, left.astype(bool)


def count_above(
    scores: FloatArray,
    first: int,
    row: IntArray,
    target: IntArray,
    value: FloatArray,
    known_indptr: IntArray,
    known: IntArray,
    greater: IntArray,
    equal: IntArray,
) -> None:
    for n in range(row.size):
        column = np.arange(first, first + scores.shape[1])
        left_out = {target[n], *known[known_indptr[row[n]] : known_indptr[row[n] + 1]]}
        line = scores[row[n], ~np.isin(column, list(left_out))]
        greater[n] += (~(line <= value[n])).sum()
        equal[n] += (line == value[n]).sum()


def places_by_range(nodes, bounds):
    kind = np.searchsorted(bounds, nodes, side="right") - 1
    places = [np.flatnonzero(kind == t) for t in range(len(bounds) - 1)]
    order = np.concatenate(places)
    pointer = np.concatenate([[0], np.cumsum([own.size for own in places])])
    return pointer, order, (nodes - np.asarray(bounds)[kind])[order]
