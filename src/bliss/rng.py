"""Counter-based randomness: a draw is a pure function of seed, step, layer and node.

The coin of node j in layer l of step t is

    u_j = unit(mix(key + (j + 1) * GOLDEN)),    key = chain(seed, t, l)

with `mix` the 64-bit finaliser of SplitMix64 and `unit` the top 53 bits as a number in [0, 1).
Kernels that flip a coin per edge use short coins of 32 bits, which take a quarter of the time:

    v_j = mix32(mix32(j + low) + high) / 2^32,    key = high 2^32 + low

(nodes whose ids differ by a multiple of 2^32 share a short coin).

No generator is stored, so threads, ranks and resumption cannot change a coin, and checkpoints need
no random state. `bliss.kernels.coins` has the compiled versions.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from bliss.arrays import IntArray
from bliss.kernels.coins import (
    COINS,
    GOLDEN,
    MULTIPLY_1,
    MULTIPLY_2,
    ONE,
    S11,
    S27,
    S30,
    S31,
    SHORT_1,
    SHORT_2,
    SHORT_15,
    SHORT_16,
    SHORT_COINS,
)

_MASK = (1 << 64) - 1


class Stream(IntEnum):
    """Streams of coins other than training steps, which are numbered from 0.

    A stream is the first counter after the seed in `derive_key`, in place of the step.
    """

    ORDER = -1
    """Order of seeds, or of clusters, in an epoch."""
    DROPOUT = -2
    """Seed of torch's generator in a training step."""
    WEIGHTS = -3
    """Seed of torch's generator for the initial weights."""
    PARTITION = -4
    """Cluster-GCN's partition."""
    WALK_COUNTS = -5
    """Random walks that GraphSAINT counts before the first batch."""
    SPLITS = 0x53504C4954
    """Nodes of a random split."""
    FRONTIERS = -6
    """Batches whose sampling variance is measured."""
    NEGATIVES = -7
    """Negatives of links in an epoch."""
    EVALUATION = 1 << 40
    """First step of sampled evaluations, far above any training step."""
    MEASUREMENT = 1 << 41
    """First step of draws whose sampling variance is measured."""


class Substream(IntEnum):
    """Streams derived from the key of a layer's coins."""

    SECOND = 1
    """Second draw of a layer: the offset of a systematic draw, or the hops of random walks."""


def hashes(key: np.uint64, counter: IntArray) -> npt.NDArray[np.uint64]:
    """64 random bits of each counter. [N] -> uint64[N]."""
    bits = key + (counter.astype(np.uint64) + ONE) * GOLDEN
    bits = (bits ^ (bits >> S30)) * MULTIPLY_1
    bits = (bits ^ (bits >> S27)) * MULTIPLY_2
    bits ^= bits >> S31
    return bits


def uniforms(key: np.uint64, counter: IntArray) -> npt.NDArray[np.float64]:
    """Coin of each counter, in [0, 1), equal to `coin` / 2^53. [N] -> float64[N]."""
    return (hashes(key, counter) >> S11).astype(np.float64) / COINS


def short_uniforms(key: np.uint64, counter: IntArray) -> npt.NDArray[np.float64]:
    """Short coin of each counter, in [0, 1). [N] -> float64[N]."""
    bits = counter.astype(np.uint32)
    for half in (np.uint32(int(key) & 0xFFFFFFFF), np.uint32(int(key) >> 32)):
        bits = bits + half
        bits = (bits ^ (bits >> SHORT_16)) * SHORT_1
        bits = (bits ^ (bits >> SHORT_15)) * SHORT_2
        bits ^= bits >> SHORT_16
    return bits.astype(np.float64) / SHORT_COINS


def derive_key(seed: int, *counters: int) -> np.uint64:
    """Mix a seed and counters (step, layer, purpose, ...) into the key of a stream of coins.

    The order of the counters matters: (1, 2) and (2, 1) give different streams.

    Examples
    --------
    >>> int(derive_key(0, 1, 2)) == int(derive_key(0, 1, 2))
    True
    >>> int(derive_key(0, 1, 2)) == int(derive_key(0, 2, 1))
    False
    """
    state = _mix(seed + int(GOLDEN))
    for counter in counters:
        state = _mix(state + _mix(counter + int(GOLDEN)) + int(GOLDEN))
    return np.uint64(state)


def _mix(value: int) -> int:
    """SplitMix64's finaliser, as in `coin`, in Python integers."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * int(MULTIPLY_1)) & _MASK
    value = ((value ^ (value >> 27)) * int(MULTIPLY_2)) & _MASK
    return value ^ (value >> 31)
