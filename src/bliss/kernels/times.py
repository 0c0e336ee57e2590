"""The compiled kernels of time: ranges that end at a time, and sources that see no later.

A target sees the edges of times after_i <= time < before_i, and those of time `ALWAYS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bliss.arrays import IntArray
from bliss.kernels.coins import random_bits
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
def split_sources(
    place: IntArray,
    before: IntArray,
    after: IntArray,
    kept_indptr: IntArray,
    owner: IntArray,
    row: IntArray,
    num_nodes: int,
    is_shared: bool,
) -> tuple[Any, Any, Any, Any]:
    """Sources of a layer with times: the targets, then copies of nodes that see no later.

    An edge j -> i leads to a source whose times are among those of i. If sources are not shared,
    that is the pair (j, times of i). If they are, it is target i itself for a self-loop; the target
    of node j with the earliest times, if these are among those of i; and otherwise one copy of j,
    which sees the times that all targets have in common whose edges lead to it.

    place          int64[D]      node of each target, as a number below num_nodes
    before, after  int64[D]      times of each target; after may be empty: no lower bound
    kept_indptr    int64[G + 1]  kept edges by group
    owner          int64[G]      target of each group
    row            int64[E']     node of each edge's source
    returns        node int64[S], row int64[E'] (position among the S sources), before int64[S],
                   after int64[S] or empty
    """
    targets, edges, has_window = place.size, row.size, after.size > 0
    node = np.empty(targets + edges, np.int64)
    until = np.empty(node.size, np.int64)
    since = np.empty(node.size if has_window else 0, np.int64)
    node[:targets], until[:targets] = place, before
    if has_window:
        since[:targets] = after
    new_row = np.empty(edges, np.int64)
    earliest = np.full(num_nodes, -1, np.int64)  # target of each node
    copy = np.full(num_nodes, -1, np.int64)  # shared copy of each node
    slots = 2
    while not is_shared and slots < 2 * node.size:
        slots *= 2
    table = np.full(slots, -1, np.int64)  # sources by node and time, if they are not shared
    count = 0
    for t in range(targets):
        if is_shared:
            c = earliest[place[t]]
            if c < 0 or before[t] < before[c]:
                earliest[place[t]] = t
        else:
            slot = _slot(table, node, until, place[t], before[t])
            if table[slot] < 0:
                table[slot] = t
    count = targets
    for g in range(owner.size):
        t = owner[g]
        for kept in range(kept_indptr[g], kept_indptr[g + 1]):
            j = row[kept]
            if not is_shared:
                slot = _slot(table, node, until, j, before[t])
                if table[slot] < 0:
                    table[slot] = count
                    node[count], until[count] = j, before[t]
                    if has_window:
                        since[count] = after[t]
                    count += 1
                new_row[kept] = table[slot]
                continue
            c = earliest[j]
            if place[t] == j:
                c = t
            elif c >= 0 and (before[c] > before[t] or (has_window and after[c] < after[t])):
                c = -1
            if c < 0:
                c = copy[j]
                if c < 0:
                    c = copy[j] = count
                    node[c], until[c] = j, before[t]
                    if has_window:
                        since[c] = after[t]
                    count += 1
                until[c] = min(until[c], before[t])
                if has_window:
                    since[c] = max(since[c], after[t])
            new_row[kept] = c
    return node[:count].copy(), new_row, until[:count].copy(), since[:count].copy()


@compiled
def _slot(table: IntArray, node: IntArray, until: IntArray, j: int, before: int) -> int:
    """Slot of a pair (node, time) in an open-addressed table, or the empty slot for it."""
    last = np.uint64(table.size - 1)
    slot = random_bits(np.uint64(before), np.uint64(j)) & last
    while table[slot] >= 0 and (node[table[slot]] != j or until[table[slot]] != before):
        slot = (slot + np.uint64(1)) & last
    return int(slot)
