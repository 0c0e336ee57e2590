"""Twins of `bliss.kernels.times`."""

from __future__ import annotations

import numpy as np

from bliss.kernels.times import ALWAYS


def cut_ranges(start, stop, time, before, after):
    groups = []
    for g in range(start.size):
        edges = np.arange(start[g], stop[g])
        seen = time[edges] < before[g]
        if after.size:
            seen &= (time[edges] >= after[g]) | (time[edges] == ALWAYS)
        groups.append(edges[seen])
    return groups


def hide_edges(pointer, start, stop, edge):
    return [
        np.setdiff1d(
            np.concatenate([np.arange(start[r], stop[r]) for r in range(*pointer[g : g + 2])]), edge
        )
        for g in range(pointer.size - 1)
    ]


def share_sources(place, before, after, indptr, row):
    sources, window = _targets(place, before, after)
    targets, shared, new_row = len(sources), {}, []
    for t in range(targets):
        for j in row[indptr[t] : indptr[t + 1]].tolist():
            own = (j, int(before[t]), int(window[t]))
            of_node = [s for s in range(targets) if place[s] == j]
            earliest = min(of_node, key=lambda s: before[s], default=None)
            if place[t] == j:
                new_row.append(t)
            elif earliest is not None and before[earliest] <= own[1] and window[earliest] >= own[2]:
                new_row.append(earliest)
            else:
                if j not in shared:
                    shared[j] = len(sources)
                    sources.append(own)
                _, b, a = sources[shared[j]]
                sources[shared[j]] = (j, min(b, own[1]), max(a, own[2]))
                new_row.append(shared[j])
    return _arrays(sources, new_row, after)


def pair_sources(place, before, after, indptr, row):
    sources, window = _targets(place, before, after)
    new_row = np.empty(row.size, np.int64)
    for t in sorted(range(place.size), key=lambda t: before[t]):
        for kept in range(indptr[t], indptr[t + 1]):
            own = (int(row[kept]), int(before[t]), int(window[t]))
            if own not in sources:
                sources.append(own)
            new_row[kept] = sources.index(own)
    return _arrays(sources, new_row, after)


def _targets(place, before, after):
    window = after if after.size else np.full(place.size, ALWAYS)
    return [(int(j), int(b), int(a)) for j, b, a in zip(place, before, window, strict=True)], window


def _arrays(sources, new_row, after):
    node, until, since = np.array(sources, np.int64).reshape(-1, 3).T
    return node, np.array(new_row, np.int64), until, since if after.size else after
