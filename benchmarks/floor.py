"""The floor: the least that any sampler of a frontier must do."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def floor(indptr: np.ndarray, indices: np.ndarray, dst: np.ndarray, word: np.ndarray) -> float:
    """One plain pass over the frontier's edges: read each index and one word of its node.

    word  float32[V]: the smallest word in use, so the hardest floor
    """
    total = np.float32(0)
    for t in range(dst.size):
        for e in range(np.uint64(indptr[dst[t]]), np.uint64(indptr[dst[t] + 1])):
            total += word[np.uint64(indices[e])]
    return total
