"""The compiled kernels of links: edges of pairs, rows without them, negatives, and ranks.

A pair (j, i) is the edge j -> i. Its copies are consecutive in the row of i if rows are sorted by
source; in other rows they are found by a scan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import BoolArray, FloatArray, IntArray
from bliss.kernels.coins import COINS, coin, random_bits
from bliss.kernels.compile import compiled

_TWO, _ONE = np.uint64(2), np.uint64(1)


@compiled
def first_unsorted(indptr: IntArray, indices: IntArray) -> int:
    """First node whose in-edges are not sorted by source; -1 if there is none."""
    for i in range(indptr.size - 1):
        for e in range(indptr[i] + 1, indptr[i + 1]):
            if indices[e] < indices[e - 1]:
                return i
    return -1


@compiled
def lower_bound(values: IntArray, start: int, stop: int, value: int) -> int:
    """First position from `start` to `stop` whose value is not below `value`; values increase."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] < value:
            start = middle + 1
        else:
            stop = middle
    return start


@compiled
def edges_of_pairs(
    indptr: IntArray, indices: IntArray, is_sorted: bool, source: IntArray, target: IntArray
) -> tuple[Any, Any]:
    """All edges of each pair, parallel ones included; a pair without an edge has none.

    is_sorted  whether rows are sorted by source
    source     int64[N]
    target     int64[N]
    returns    pair int64[H] (positions in the input, not decreasing), edge int64[H]
    """
    first = indptr[target]
    if is_sorted:
        for n in range(source.size):
            first[n] = lower_bound(indices, first[n], indptr[target[n] + 1], source[n])
    count = 0
    for n in range(source.size):
        e = first[n]
        while e < indptr[target[n] + 1] and (not is_sorted or indices[e] == source[n]):
            count += indices[e] == source[n]
            e += 1
    pair = np.empty(count, np.int64)
    edge = np.empty(count, np.int64)
    count = 0
    for n in range(source.size):
        e = first[n]
        while e < indptr[target[n] + 1] and (not is_sorted or indices[e] == source[n]):
            if indices[e] == source[n]:
                pair[count] = n
                edge[count] = e
                count += 1
            e += 1
    return pair, edge


@compiled
def edges_of_codes(indptr: IntArray, indices: IntArray, codes: IntArray) -> tuple[Any, Any, Any]:
    """All edges of the distinct pairs (j, i) with the codes i V + j, in sorted rows.

    codes    int64[N]  not decreasing
    returns  edge int64[H] (increasing), node int64[N'] (their targets, increasing),
             count int64[N'] (edges of each target)
    """
    num_nodes = indptr.size - 1
    source = np.empty(codes.size, np.int64)
    target = np.empty(codes.size, np.int64)
    pairs = 0
    for n in range(codes.size):
        if n == 0 or codes[n] != codes[n - 1]:
            target[pairs] = codes[n] // num_nodes
            source[pairs] = codes[n] - target[pairs] * num_nodes
            pairs += 1
    pair, edge = edges_of_pairs(indptr, indices, True, source[:pairs], target[:pairs])
    node = np.empty(edge.size, np.int64)
    count = np.empty(edge.size, np.int64)
    nodes = 0
    for h in range(edge.size):
        if h == 0 or target[pair[h]] != node[nodes - 1]:
            node[nodes] = target[pair[h]]
            count[nodes] = 0
            nodes += 1
        count[nodes - 1] += 1
    return edge, node[:nodes], count[:nodes]


@compiled
def split_rows(
    indptr: IntArray, dst: IntArray, node: IntArray, edge: IntArray
) -> tuple[Any, Any, Any, Any]:
    """`split_ranges` of the rows of the targets dst int64[D], distinct."""
    first = np.empty(dst.size, np.int64)
    last = np.empty(dst.size, np.int64)
    for t in range(dst.size):  # reads alone: they wait for memory together
        first[t] = indptr[np.uint64(dst[t])]
        last[t] = indptr[np.uint64(dst[t] + 1)]
    return split_ranges(first, last, dst, node, edge)


@compiled
def split_ranges(
    first: IntArray, last: IntArray, target: IntArray, node: IntArray, edge: IntArray
) -> tuple[Any, Any, Any, Any]:
    """Split groups of edges around hidden edges: a range ends before each hidden edge.

    first, last  int64[G]  edges of each group: first to last
    target       int64[G]  target of each group
    node         int64[N]  targets of the hidden edges
    edge         int64[H]  hidden edges, distinct, increasing
    returns      pointer int64[G + 1], start int64[R], stop int64[R], degree int64[G]
    """
    may_lose = np.zeros(1 << 14, np.bool_)  # by the last bits of a node's id
    bits = may_lose.size - 1
    for n in range(node.size):
        may_lose[node[n] & bits] = True
    pointer = np.zeros(target.size + 1, np.int64)
    start = np.empty(target.size + edge.size, np.int64)
    stop = np.empty(target.size + edge.size, np.int64)
    degree = np.empty(target.size, np.int64)
    r, h = 0, 0
    for t in range(target.size):
        start[r] = first[t]
        if may_lose[target[t] & bits]:
            is_next = (h == 0 or edge[h - 1] < first[t]) and (h == edge.size or edge[h] >= first[t])
            if not is_next:  # seeds, which come first in every layer, are sorted
                h = lower_bound(edge, 0, edge.size, first[t])
            while h < edge.size and edge[h] < last[t]:
                stop[r] = edge[h]
                r += 1
                start[r] = edge[h] + 1
                h += 1
        stop[r] = last[t]
        degree[t] = last[t] - first[t] - (r - pointer[t])
        r += 1
        pointer[t + 1] = r
    return pointer, start[:r], stop[:r], degree


@compiled
def typed_ranges(
    dst: IntArray, group_ptr: IntArray, group_start: IntArray
) -> tuple[Any, Any, Any, Any]:
    """Groups of the targets in a graph with types; see `bliss.graph.GraphTypes`.

    dst          int64[D]
    group_ptr    int64[V + 1]  groups of each node
    group_start  int64[Q + 1]  edges of each group
    returns      target_ptr int64[D + 1] (groups of each target), and int64[G] each: start, stop and
                 degree
    """
    first = np.empty(dst.size, np.int64)
    target_ptr = np.zeros(dst.size + 1, np.int64)
    for t in range(dst.size):
        first[t] = group_ptr[np.uint64(dst[t])]
        target_ptr[t + 1] = target_ptr[t] + group_ptr[np.uint64(dst[t] + 1)] - first[t]
    start, stop, degree = np.empty((3, target_ptr[-1]), np.int64)
    for t in range(dst.size):
        g, q = np.uint64(target_ptr[t]), np.uint64(first[t])
        for k in range(np.uint64(target_ptr[t + 1]) - g):
            start[g + k] = group_start[q + k]
    for n in range(1, start.size):  # true within a target
        stop[n - 1] = start[n]
    for t in range(dst.size):
        number = target_ptr[t + 1] - target_ptr[t]
        if number > 0:
            stop[target_ptr[t + 1] - 1] = group_start[np.uint64(first[t] + number)]
    for n in range(degree.size):
        degree[n] = stop[n] - start[n]
    return target_ptr, start, stop, degree


@compiled
def places_by_range(nodes: IntArray, bounds: IntArray) -> tuple[Any, Any, Any]:
    """Positions of the nodes of each range of ids, in order, and their ids within the range.

    nodes    int[N]
    bounds   int64[T + 1]  nodes of range t: bounds[t] to bounds[t + 1]
    returns  pointer int64[T + 1], order int64[N]: positions of range t from pointer[t], and
             local int64[N]: nodes[order] minus the first id of their range
    """
    ranges = bounds.size - 1
    own = np.empty(nodes.size, np.int64)
    pointer = np.zeros(ranges + 1, np.int64)
    for n in range(nodes.size):
        t = 0
        for other in range(1, ranges):  # few ranges: counting them needs no branch
            t += nodes[n] >= bounds[other]
        own[n] = t
        pointer[t + 1] += 1
    for t in range(ranges):
        pointer[t + 1] += pointer[t]
    place = pointer.copy()
    order = np.empty(nodes.size, np.int64)
    local = np.empty(nodes.size, np.int64)
    for n in range(nodes.size):
        to = place[own[n]]
        order[to] = n
        local[to] = nodes[n] - bounds[own[n]]
        place[own[n]] = to + 1
    return pointer, order, local


@compiled
def is_edge(indptr: IntArray, indices: IntArray, is_sorted: bool, j: int, i: int) -> bool:
    """Whether the graph has the edge j -> i."""
    e, stop = indptr[i], indptr[i + 1]
    if is_sorted:
        e = lower_bound(indices, e, stop, j)
    else:
        while e < stop and indices[e] != j:
            e += 1
    return bool(e < stop and indices[e] == j)


@compiled
def was_edge(
    indptr: IntArray, indices: IntArray, time: IntArray, j: int, i: int, latest: int
) -> bool:
    """Whether the graph has the edge j -> i with a time of at most `latest`; sorted by time."""
    for e in range(indptr[i], indptr[i + 1]):
        if time[e] > latest:
            return False
        if indices[e] == j:
            return True
    return False


@compiled
def draw_node(key: np.uint64, counter: np.uint64, ladder: FloatArray, num_nodes: int) -> int:
    """One node: uniform, or with probability proportional to its weight.

    ladder  float64[V]  cumulative weights; empty: uniform
    """
    share = coin(key, counter) / COINS
    if ladder.size == 0:
        return int(share * num_nodes)
    value = min(share * ladder[-1], np.nextafter(ladder[-1], 0.0))
    start, stop = 0, ladder.size  # the first node whose cumulative weight exceeds the value
    while start < stop:
        middle = (start + stop) >> 1
        if ladder[middle] <= value:
            start = middle + 1
        else:
            stop = middle
    return start


@compiled
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
) -> tuple[Any, Any, Any]:
    """Draw pairs that are not known links; a known link is drawn again, `tries` times at most.

    The coins of try t are coin(own, 2 t) for the source and coin(own, 2 t + 1) for the target, with
    own = random_bits(random_bits(key, place), number). A pair (j, i) is known if it is an edge of
    the graph, if j = i, or if its code j V + i is in `known`.

    place          int64[N]    seed link of each negative
    number         int64[N]    number of the negative among those of its seed link
    source         int64[N]    sources; empty: they are drawn, too
    source_ladder  float64[V]  cumulative weights of the nodes; empty: uniform
    target_ladder  float64[V]
    known          int64[K]    codes of further known links, increasing
    time           int64[E]    times of edges, by which rows are sorted; empty: none
    latest         int64[N]    with times, edges up to this time are known
    returns        source int64[N], target int64[N], is_known bool[N]
    """
    num_nodes = indptr.size - 1
    src = np.empty(place.size, np.int64)
    dst = np.empty(place.size, np.int64)
    is_known: BoolArray = np.ones(place.size, np.bool_)
    for n in range(place.size):
        own = random_bits(random_bits(key, np.uint64(place[n])), np.uint64(number[n]))
        t = 0
        while t < tries and is_known[n]:
            counter = _TWO * np.uint64(t)
            j = source[n] if source.size else draw_node(own, counter, source_ladder, num_nodes)
            i = draw_node(own, counter + _ONE, target_ladder, num_nodes)
            src[n], dst[n] = j, i
            code = j * num_nodes + i
            at = lower_bound(known, 0, known.size, code)
            is_known[n] = (
                j == i
                or (at < known.size and known[at] == code)
                or (latest.size == 0 and is_edge(indptr, indices, is_sorted, j, i))
                or (latest.size > 0 and was_edge(indptr, indices, time, j, i, latest[n]))
            )
            t += 1
    return src, dst, is_known


@compiled
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
    """Add, for each link, the candidates whose score is greater than its own, and equal to it.

    The link itself and known links are not counted. A score that is NaN counts as greater, and all
    scores are greater than a link whose own is NaN.

    scores        float[C, K]  score of each source against candidates first to first + K - 1
    row           int64[N]     row of each link
    target        int64[N]     candidate of each link
    value         float[N]     score of each link
    known_indptr  int64[C + 1] known candidates by row
    known         int64[...]   distinct candidates within a row
    greater       int64[N]     added to
    equal         int64[N]     added to
    """
    width = scores.shape[1]
    for n in range(row.size):
        line, own = scores[row[n]], value[n]
        above, same = 0, 0
        for c in range(width):
            above += not (line[c] <= own)
            same += line[c] == own
        c = target[n] - first
        if 0 <= c < width:
            above -= not (line[c] <= own)
            same -= line[c] == own
        for at in range(known_indptr[row[n]], known_indptr[row[n] + 1]):
            c = known[at] - first
            if 0 <= c < width and known[at] != target[n]:
                above -= not (line[c] <= own)
                same -= line[c] == own
        greater[n] += above
        equal[n] += same
