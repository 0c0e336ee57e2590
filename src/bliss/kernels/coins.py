"""Coins inside kernels: compiled hashes of a key and a counter; `bliss.rng` has the formulas."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bliss.arrays import FloatArray, IntArray
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
PHASE_LOW, PHASE_HIGH = np.uint32(0x9E3779B9), np.uint32(0x7F4A7C15)
"""Key of the short coins that set the phases of nodes."""
NO_PHASE = np.uint64(1 << 32)
"""Phase that no node reaches."""


class CoinKey(NamedTuple):
    """Keys of the coins of one layer in one step; `bliss.rng.coin_key` makes them.

    The coins of a node belong to `before`, or to `after` if its 32 bits of phase are at least
    `turn`. If coins last for one step, all belong to `before`, which is then `step`.
    """

    step: np.uint64  # for coins that belong to no node
    before: np.uint64
    after: np.uint64
    turn: np.uint64  # in [0, 2^32]


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
def node_key(key: CoinKey, node: np.uint64) -> np.uint64:
    """Key of the coins of one node. Compiled; called inside kernels."""
    bits = np.uint64(short_bits(PHASE_LOW, PHASE_HIGH, np.uint32(node)))
    return key.after if bits >= key.turn else key.before


@compiled
def fill_coins(key: CoinKey, node: IntArray, coins: FloatArray) -> None:
    """Write the coins of nodes, in [0, 2^53). node int[N], coins float64[at least N]."""
    if key.turn == NO_PHASE:
        for c in range(node.size):  # only arithmetic, so that the loops are vectorised
            coins[c] = coin(key.before, np.uint64(node[c]))
    else:
        for c in range(node.size):
            own = np.uint64(node[c])
            coins[c] = coin(node_key(key, own), own)


@compiled
def fill_short_coins(key: CoinKey, node: IntArray, coins: IntArray) -> None:
    """Write the short coins of nodes. node int[N], coins uint32[at least N]."""
    low, high = halves(key.before)
    if key.turn == NO_PHASE:
        for c in range(node.size):  # only arithmetic, so that the loops are vectorised
            coins[c] = short_bits(low, high, np.uint32(node[c]))
    else:
        late_low, late_high = halves(key.after)
        for c in range(node.size):
            own = np.uint32(node[c])
            is_late = np.uint64(short_bits(PHASE_LOW, PHASE_HIGH, own)) >= key.turn
            coins[c] = short_bits(late_low if is_late else low, late_high if is_late else high, own)


@compiled
def halves(key: np.uint64) -> tuple[np.uint32, np.uint32]:
    """Low and high 32 bits of a key, as arguments of `short_bits`."""
    return np.uint32(key), np.uint32(key >> _S32)
