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
        begin, end = start[g], lower_bound(time, start[g], stop[g], before[g])
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
    node = np.empty(targets + num_nodes, np.int64)
    until, since = np.empty(node.size, np.int64), np.empty(node.size * has_window, np.int64)
    node[:targets], until[:targets], since[: after.size] = place, before, after
    new_row = np.empty(row.size, np.int64)
    slot = np.full(num_nodes, -1, np.int64)  # earliest target of each node, or else its copy
    copy = np.full(num_nodes, -1, np.int64)  # of nodes that are targets
    for t in range(targets):
        c = slot[place[t]]
        if c < 0 or before[t] < before[c]:
            slot[place[t]] = t
    count = targets
    for t in range(targets):
        own, limit = place[t], before[t]
        least = after[t] if has_window else ALWAYS
        for kept in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
            j = np.uint64(row[kept])
            c = slot[j]
            if c < targets:
                if row[kept] == own:
                    new_row[kept] = t
                    continue
                is_target = c >= 0
                if is_target and until[c] <= limit and not (has_window and since[c] < least):
                    new_row[kept] = c
                    continue
                c = copy[j] if is_target else c
                if c < 0:
                    c, count = count, count + 1
                    node[c], until[c] = row[kept], limit
                    if has_window:
                        since[c] = least
                    if is_target:
                        copy[j] = c
                    else:
                        slot[j] = c
            if until[np.uint64(c)] > limit:
                until[np.uint64(c)] = limit
            if has_window and since[c] < least:
                since[c] = least
            new_row[kept] = c
    kept_since = since[: count * has_window].copy()
    return node[:count].copy(), new_row, until[:count].copy(), kept_since


@compiled
def pair_sources(
    place: IntArray,
    before: IntArray,
    after: IntArray,
    indptr: IntArray,
    row: IntArray,
    num_nodes: int,
    order: IntArray,
) -> tuple[Any, Any, Any, Any]:
    """Sources that are pairs of a node and a time: the targets, then others in the order of time.

    An edge j -> i leads to the pair of j and the time of i. Targets are visited in the order of
    time, so that only the latest pair of each node has to be known. Arguments and results are those
    of `share_sources`; `order` int64[D] sorts the targets by `before`, stably.
    """
    targets, edges, has_window = place.size, row.size, after.size > 0
    node = np.empty(targets + edges, np.int64)
    until, since = np.empty(node.size, np.int64), np.empty(node.size * has_window, np.int64)
    node[:targets], until[:targets], since[: after.size] = place, before, after
    new_row = np.empty(edges, np.int64)
    latest = np.full(num_nodes, -1, np.int64)  # pair of each node
    count, first = targets, 0
    while first < targets:
        limit, last = before[order[first]], first
        while last < targets and before[order[last]] == limit:
            t = order[last]
            c = latest[place[t]]
            if c < 0 or until[c] != limit:
                latest[place[t]] = t
            last += 1
        for n in range(first, last):
            t = order[n]
            for kept in range(np.uint64(indptr[t]), np.uint64(indptr[t + 1])):
                j = np.uint64(row[kept])
                c = latest[j]
                if c < 0 or until[np.uint64(c)] != limit:
                    c = latest[j] = count
                    node[c], until[c] = row[kept], limit
                    if has_window:
                        since[c] = after[t]
                    count += 1
                new_row[kept] = c
        first = last
    kept_since = since[: count * has_window].copy()
    return node[:count].copy(), new_row, until[:count].copy(), kept_since
