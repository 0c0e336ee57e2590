"""The compiled kernels of time: ranges that end at a time, and sources that see no later.

A target sees the edges of times after_i <= time < before_i, and those of time `ALWAYS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import IntArray
from bliss.kernels.compile import compiled
from bliss.kernels.links import lower_bound

ALWAYS = np.iinfo(np.int64).min
"""Time of an edge that is seen at any time, such as an added self-loop."""
_ONE = np.uint64(1)


@compiled
def cut_ranges(
    start: IntArray, stop: IntArray, time: IntArray, before: IntArray, after: IntArray
) -> tuple[Any, Any, Any, Any]:
    """The visible part of ranges of edges that are sorted by time, by binary search.

    start, stop    int64[G]  one range per group
    time           int64[E]  not decreasing within a range
    before, after  int64[G]  after may be empty: no lower bound
    returns        pointer int64[G + 1], start int64[R], stop int64[R], degree int64[G]
    """
    groups, has_window = start.size, after.size > 0
    pointer = np.zeros(groups + 1, np.int64)
    first = np.empty(groups * (2 if has_window else 1), np.int64)
    last = np.empty(first.size, np.int64)
    degree = np.empty(groups, np.int64)
    r = 0
    for g in range(groups):
        begin, end = start[g], stop[g]
        if begin < end and time[end - 1] >= before[g]:  # often all edges are seen
            end = lower_bound(time, begin, end - 1, before[g])
        degree[g] = 0
        if has_window:
            low = lower_bound(time, begin, end, after[g])
            middle = lower_bound(time, begin, low, ALWAYS + 1)
            if begin < middle < low:  # edges without a time come first, apart from the others
                first[r], last[r] = begin, middle
                degree[g] = middle - begin
                r += 1
            begin = begin if middle == low else low
        first[r], last[r] = begin, end
        degree[g] += end - begin
        r += 1
        pointer[g + 1] = r
    return pointer, first[:r], last[:r], degree


@compiled
def hide_edges(
    pointer: IntArray, start: IntArray, stop: IntArray, edge: IntArray
) -> tuple[Any, Any, Any, Any]:
    """Split ranges around hidden edges, as `links.split_rows` does for whole rows.

    pointer  int64[G + 1]  ranges of each group
    edge     int64[H]      hidden edges, distinct, increasing
    returns  pointer int64[G + 1], start int64[R'], stop int64[R'], degree int64[G]
    """
    groups, count = pointer.size - 1, start.size
    for r in range(start.size):
        count += lower_bound(edge, 0, edge.size, stop[r]) - lower_bound(
            edge, 0, edge.size, start[r]
        )
    split = np.zeros(groups + 1, np.int64)
    first, last = np.empty(count, np.int64), np.empty(count, np.int64)
    degree = np.zeros(groups, np.int64)
    n = 0
    for g in range(groups):
        for r in range(pointer[g], pointer[g + 1]):
            first[n] = start[r]
            h = lower_bound(edge, 0, edge.size, start[r])
            while h < edge.size and edge[h] < stop[r]:
                last[n] = edge[h]
                degree[g] += last[n] - first[n]
                n += 1
                first[n] = edge[h] + 1
                h += 1
            last[n] = stop[r]
            degree[g] += last[n] - first[n]
            n += 1
        split[g + 1] = n
    return split, first, last, degree


@compiled
def share_sources(
    place: IntArray,
    before: IntArray,
    after: IntArray,
    indptr: IntArray,
    row: IntArray,
    num_nodes: int,
) -> tuple[Any, Any, Any, Any]:
    """Sources that all targets of a layer share: the targets, then at most one copy of each node.

    An edge j -> i leads to target i itself for a self-loop; to the target of node j with the
    earliest times, if these are among those of i; and otherwise to the copy of j, which sees the
    times that all targets have in common whose edges lead to it.

    place          int64[D]      node of each target, as a number below num_nodes
    before, after  int64[D]      times of each target; after may be empty: no lower bound
    indptr         int64[D + 1]  kept edges by target
    row            int64[E']     node of each edge's source
    returns        node int64[S], row int64[E'] (position among the S sources), before int64[S],
                   after int64[S] or empty
    """
    targets, has_window = place.size, after.size > 0
    last = targets + num_nodes + 1  # not a source: where bounds of other edges are written
    node = np.empty(last, np.int64)
    until, since = np.zeros(last + 1, np.int64), np.zeros((last + 1) * has_window, np.int64)
    node[:targets], until[:targets], since[: after.size] = place, before, after
    new_row = np.empty(row.size, np.int64)
    earliest = np.full(num_nodes, -1, np.int64)  # target of each node
    copy = np.full(num_nodes, -1, np.int64)
    time = np.empty(num_nodes, np.int64)  # of the earliest target
    for t in range(targets):
        c = earliest[place[t]]
        if c < 0 or before[t] < before[c]:
            earliest[place[t]], time[place[t]] = t, before[t]
    count = np.uint64(targets)
    for t in range(targets):
        own, limit = np.uint64(place[t]), before[t]
        least = after[t] if has_window else ALWAYS
        for kept in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
            j = np.uint64(row[kept])  # from here on without branches, which could not be foreseen
            target, c = earliest[j], copy[j]
            is_target = (target >= 0) & (time[j] <= limit)
            if has_window:
                is_target &= after[target] >= least
            is_own = j == own
            is_copy = not (is_target | is_own)
            is_new = is_copy & (c < 0)
            node[count], until[count] = j, limit  # overwritten by the next, unless it is new
            c = np.int64(count) if is_new else c
            bound = np.uint64(c if is_copy else last)
            until[bound] = min(until[bound], limit)
            if has_window:
                since[count] = least
                since[bound] = max(since[bound], least)
            copy[j] = c
            count += np.uint64(is_new)
            target = target if is_target else c
            new_row[kept] = t if is_own else target
    total = np.int64(count)
    kept_since = since[: total * has_window].copy()
    return node[:total].copy(), new_row, until[:total].copy(), kept_since


@compiled
def pair_sources(
    indices: IntArray,
    dst: IntArray,
    before: IntArray,
    after: IntArray,
    indptr: IntArray,
    edge: IntArray,
    order: IntArray,
    number: IntArray,
) -> tuple[Any, Any, Any, Any]:
    """Sources that are pairs of a node and a time: the targets, then others in the order of time.

    An edge j -> i leads to the pair of j and the time of i. Targets are visited in the order of
    time, so that only the latest pair of each node has to be known: pairs are numbered as they are
    visited, and those of the present time have numbers above `first`.

    indices        int[E]
    dst            int64[D]      node of each target
    before, after  int64[D]      times of each target; after may be empty: no lower bound
    indptr         int64[D + 1]  kept edges by target
    edge           int64[E']     graph edge ids
    order          int64[D]      sorts the targets by `before`, stably
    number         int[V]        all zero on entry and on return
    returns        as `share_sources`, with graph ids of nodes
    """
    targets, edges, has_window = dst.size, edge.size, after.size > 0
    size = targets + edges + 1
    node, until = np.empty(size, np.int64), np.empty(size, np.int64)
    since = np.empty(size * has_window, np.int64)
    node[:targets], until[:targets], since[: after.size] = dst, before, after
    position = np.empty(size + targets, np.int64)  # of each numbered pair among the sources
    row = np.empty(edges, np.int64)
    for kept in range(edges):  # a separate loop, so that its cache misses overlap
        row[kept] = indices[np.uint64(edge[kept])]
    count, pairs, begin = np.uint64(targets), np.uint64(0), 0
    while begin < targets:
        limit, end, first = before[order[begin]], begin, pairs
        while end < targets and before[order[end]] == limit:
            own = np.uint64(dst[order[end]])
            if np.uint64(number[own]) <= first:
                position[pairs] = order[end]
                pairs += _ONE
                number[own] = pairs
            end += 1
        for n in range(begin, end):
            t = order[n]
            for kept in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
                j = np.uint64(row[kept])
                pair = np.uint64(number[j])
                is_new = np.uint64(pair <= first)
                node[count], until[count], position[pairs] = j, limit, count
                if has_window:
                    since[count] = after[t]
                count += is_new
                pairs += is_new
                pair = pairs if is_new else pair
                number[j] = pair
                row[kept] = position[pair - _ONE]
        begin = end
    for s in range(count):
        number[np.uint64(node[s])] = 0
    total = np.int64(count)
    kept_since = since[: total * has_window].copy()
    return node[:total].copy(), row, until[:total].copy(), kept_since
