"""What bandits make of an observed size."""

from __future__ import annotations

import numpy as np

from bliss.arrays import FloatArray

SMALLEST_SIZE = 0.03
"""Lengths below this share of the layer's mean count as that: one that dropout has emptied, or a
node without features, is no reason to look away for good."""


def log_size(norm: FloatArray) -> FloatArray:
    """log|h_j|, with a floor at SMALLEST_SIZE of the layer's mean. [S] -> float32[S]."""
    size = np.minimum(norm, np.float32(1e30))
    least = max(SMALLEST_SIZE * float(size.mean(dtype=np.float64)), 1e-30)
    return np.asarray(np.log(np.maximum(size, np.float32(least))))
