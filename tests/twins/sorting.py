"""Plain NumPy twins of `bliss.kernels.sorting`."""

from __future__ import annotations

import numpy as np


def pack(source, target, weight, bits, key, value, has_loop):
    """Keys of edges and of their reverses, one after the other, without self-loops."""
    others = source != target
    has_loop[target[~others]] = True
    j, i = source[others].astype(np.uint64), target[others].astype(np.uint64)
    shift, one = np.uint64(bits), np.uint64(1)
    size = 2 * j.size
    key[0:size:2] = (i << shift | j) << one
    key[1:size:2] = (j << shift | i) << one | one
    if weight.size:
        value[:size] = np.repeat(weight[others], 2)
    return size, int((~others).sum())


def spread(key, value, drop, start, spread_key, spread_value):
    """Sort keys by bucket, stably."""
    bucket = (key >> np.uint64(drop)) & np.uint64(start.size - 2)
    start[0] = 0
    start[1:] = np.cumsum(np.bincount(bucket.astype(np.int64), minlength=start.size - 1))
    order = np.argsort(bucket, kind="stable")
    spread_key[:] = key[order]
    if value.size:
        spread_value[:] = value[order]


def merge(key, bits, directed, first_target, degree, source):
    """Sources and in-degrees of sorted keys, equal edges once."""
    edges, first = np.unique(key >> np.uint64(1), return_index=True)
    last = np.append(first[1:], key.size) - 1
    is_given, is_reversed = key[first] % 2 == 0, key[last] % 2 == 1
    kept = is_given if directed else np.ones(edges.size, bool)
    j = (edges & np.uint64(2**bits - 1)).astype(np.int64)
    i = (edges >> np.uint64(bits)).astype(np.int64)
    source[: kept.sum()] = j[kept]
    degree += np.bincount(i[kept] - first_target, minlength=degree.size)
    return int(kept.sum()), int((kept & is_reversed & (i != j)).sum())
