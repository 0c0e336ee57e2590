"""Coins inside kernels: compiled hashes of a key and a counter; `bliss.rng` has the formulas."""

from __future__ import annotations

import numpy as np

from bliss.kernels.compile import compiled

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
ONE = np.uint64(1)
COINS = 2.0**53
"""Number of values that a coin can take."""
SHORT_COINS = 2.0**32
"""Number of values that a short coin can take."""
SHORT_1, SHORT_2 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
SHORT_15, SHORT_16, _S32 = np.uint32(15), np.uint32(16), np.uint64(32)


@compiled
def random_bits(key: np.uint64, counter: np.uint64) -> np.uint64:
    """64 random bits. Compiled; called inside kernels."""
    bits = key + (counter + ONE) * GOLDEN
    bits = (bits ^ (bits >> S30)) * MULTIPLY_1
    bits = (bits ^ (bits >> S27)) * MULTIPLY_2
    return bits ^ (bits >> S31)


@compiled
def coin(key: np.uint64, counter: np.uint64) -> float:
    """One coin as an integer in [0, 2^53). Compiled; called inside kernels."""
    return np.float64(np.int64(random_bits(key, counter) >> S11))


@compiled
def short_bits(low: np.uint32, high: np.uint32, counter: np.uint32) -> np.uint32:
    """32 random bits. Compiled; called inside kernels. Loops of it are vectorised."""
    return _mix_short(np.uint32(_mix_short(np.uint32(counter + low)) + high))


@compiled
def _mix_short(bits: np.uint32) -> np.uint32:
    bits = np.uint32((bits ^ (bits >> SHORT_16)) * SHORT_1)  # numba would widen the type
    bits = np.uint32((bits ^ (bits >> SHORT_15)) * SHORT_2)
    return np.uint32(bits ^ (bits >> SHORT_16))


@compiled
def halves(key: np.uint64) -> tuple[np.uint32, np.uint32]:
    """Low and high 32 bits of a key, as arguments of `short_bits`."""
    return np.uint32(key), np.uint32(key >> _S32)
