"""Counter-based randomness: a draw is a pure function of seed, step, layer and node.

The coin of node j in layer l of step t is

    u_j = unit(mix(key + (j + 1) * GOLDEN)),    key = chain(seed, t, l)

with `mix` the 64-bit finaliser of SplitMix64 and `unit` the top 53 bits as a number in [0, 1).
Kernels that flip a coin per edge use short coins of 32 bits, which take a quarter of the time:

    v_j = mix32(mix32(j + low) + high) / 2^32,    key = high 2^32 + low

(nodes whose ids differ by a multiple of 2^32 share a short coin).

Coins may last for K steps. The coin of node j then belongs to the counter

    (t + phase_j) // K = t // K + [phase_j >= K - t mod K],    phase_j = floor(K b_j / 2^32)

in place of t, where b_j are 32 random bits of j. A coin is uniform in every step, and a K-th of the
nodes, a different one in each step, change their coins. For K = 1 this is the coin above.
`coin_key` is the only place where the counter is made: a step needs the keys of two counters, and
b_j >= ceil(2^32 (K - t mod K) / K) tells which of them is that of node j.

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
    NO_PHASE,
    ONE,
    PHASE_HIGH,
    PHASE_LOW,
    S11,
    S27,
    S30,
    S31,
    SHORT_1,
    SHORT_2,
    SHORT_15,
    SHORT_16,
    SHORT_COINS,
    CoinKey,
)

_MASK = (1 << 64) - 1
_LOW, _HIGH = np.uint64(0xFFFFFFFF), np.uint64(32)


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


Bits32 = npt.NDArray[np.uint32]
Bits64 = npt.NDArray[np.uint64]


def hashes(key: np.uint64 | CoinKey, counter: IntArray) -> Bits64:
    """64 random bits of each counter. [N] -> uint64[N].

    With a `CoinKey` the counters are nodes, and bits last as long as the coins of the key.
    """
    bits: Bits64 = _keys(key, counter) + (counter.astype(np.uint64) + ONE) * GOLDEN
    bits = (bits ^ (bits >> S30)) * MULTIPLY_1
    bits = (bits ^ (bits >> S27)) * MULTIPLY_2
    bits ^= bits >> S31
    return bits


def uniforms(key: np.uint64 | CoinKey, counter: IntArray) -> npt.NDArray[np.float64]:
    """Coin of each counter, in [0, 1), equal to `coin` / 2^53. [N] -> float64[N]."""
    return (hashes(key, counter) >> S11).astype(np.float64) / COINS


def short_uniforms(key: np.uint64 | CoinKey, counter: IntArray) -> npt.NDArray[np.float64]:
    """Short coin of each counter, in [0, 1). [N] -> float64[N]."""
    keys = _keys(key, counter)
    low, high = (keys & _LOW).astype(np.uint32), (keys >> _HIGH).astype(np.uint32)
    return _short_hashes(low, high, counter).astype(np.float64) / SHORT_COINS


def _short_hashes(low: Bits32 | np.uint32, high: Bits32 | np.uint32, counter: IntArray) -> Bits32:
    """32 random bits of each counter. [N] -> uint32[N]."""
    bits = counter.astype(np.uint32)
    for half in (low, high):
        bits = bits + half
        bits = (bits ^ (bits >> SHORT_16)) * SHORT_1
        bits = (bits ^ (bits >> SHORT_15)) * SHORT_2
        bits ^= bits >> SHORT_16
    return bits


def _keys(key: np.uint64 | CoinKey, node: IntArray) -> Bits64:
    """Key of the coins of each node; with a plain key it is the same for all. uint64[N] or []."""
    if not isinstance(key, CoinKey):
        return np.asarray(key, np.uint64)
    if key.turn == NO_PHASE:
        return np.asarray(key.before)
    is_late = _short_hashes(PHASE_LOW, PHASE_HIGH, node) >= key.turn
    return np.where(is_late, key.after, key.before)


def coin_key(seed: int, step: int, *counters: int, lasting: int = 1) -> CoinKey:
    """Keys of the coins of a step, which last for `lasting` steps.

    Further counters are those of the layer and the shard.

    Examples
    --------
    >>> coin_key(0, 5, 1).before == derive_key(0, 5, 1)
    np.True_
    >>> nodes = np.arange(1000)
    >>> coins = [uniforms(coin_key(0, step, 1, lasting=8), nodes) for step in range(2)]
    >>> float((coins[0] != coins[1]).mean())  # an eighth of the nodes
    0.123
    """
    own = derive_key(seed, step, *counters)
    window, past = divmod(step, lasting)
    if lasting == 1:
        return CoinKey(own, own, own, NO_PHASE)
    before, after = (derive_key(seed, window + more, *counters) for more in (0, 1))
    turn = -(-(lasting - past) * int(NO_PHASE) // lasting)  # rounded up
    return CoinKey(own, before, after, np.uint64(turn))


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
