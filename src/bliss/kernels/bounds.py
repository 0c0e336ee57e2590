"""Checks of ids before other kernels use them as unsigned indices."""

from __future__ import annotations

import numpy as np

from bliss.arrays import IntArray
from bliss.kernels.compile import compiled

_CHUNK = 4096


@compiled
def first_outside(ids: IntArray, limit: int) -> int:
    """Position of the first id outside [0, limit), or -1 if there is none.

    A negative number becomes a large unsigned one, so one comparison checks both ends. Ids outside
    are counted per chunk without branches, so that the loop is vectorised.

    ids  int[N]
    """
    end = np.uint64(limit)
    for start in range(0, ids.size, _CHUNK):
        stop = min(start + _CHUNK, ids.size)
        outside = 0
        for n in range(start, stop):
            outside += int(np.uint64(ids[n]) >= end)
        if outside:
            for n in range(start, stop):
                if np.uint64(ids[n]) >= end:
                    return n
    return -1


@compiled
def first_fall(pointers: IntArray) -> int:
    """Position of the first entry smaller than the one before it, or -1. pointers int[N]."""
    for n in range(1, pointers.size):
        if pointers[n] < pointers[n - 1]:
            return n
    return -1
