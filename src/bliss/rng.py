"""Counter-based randomness: a draw is a pure function of where it happens.

The coin of node j in layer l of step t is

    u_j = unit(mix(key + (j + 1) * GOLDEN)),    key = chain(seed, t, l)

with `mix` the 64-bit finaliser of SplitMix64 and `unit` the top 53 bits as a number in [0, 1).
Where a coin is flipped for every edge, short coins of 32 bits take a quarter of the time:

    v_j = mix32(mix32(j + low) + high) / 2^32,    key = high 2^32 + low

(nodes whose ids differ by a multiple of 2^32 have one in common).

No generator is stored anywhere: threads, ranks and resumption cannot change a coin, and nothing
needs to be saved to repeat one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bliss.kernels.compile import compiled

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_ONE = np.uint64(1)
COINS = 2.0**53
"""How many values a coin can take."""
SHORT_COINS = 2.0**32
"""How many values a short coin can take."""
_SHORT_1, _SHORT_2 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_SHORT_15, _SHORT_16, _S32 = np.uint32(15), np.uint32(16), np.uint64(32)
_MASK = (1 << 64) - 1


@compiled
def random_bits(key: np.uint64, counter: np.uint64) -> np.uint64:
    """64 random bits: compiled, called inside kernels."""
    bits = key + (counter + _ONE) * GOLDEN
    bits = (bits ^ (bits >> _S30)) * _MULTIPLY_1
    bits = (bits ^ (bits >> _S27)) * _MULTIPLY_2
    return bits ^ (bits >> _S31)


@compiled
def coin(key: np.uint64, counter: np.uint64) -> float:
    """One coin as a whole number in [0, 2^53): compiled, called inside kernels."""
    return np.float64(np.int64(random_bits(key, counter) >> _S11))


@compiled
def short_bits(low: np.uint32, high: np.uint32, counter: np.uint32) -> np.uint32:
    """32 random bits: compiled, called inside kernels. A loop of it is vectorised."""
    return _mix_short(np.uint32(_mix_short(np.uint32(counter + low)) + high))


@compiled
def _mix_short(bits: np.uint32) -> np.uint32:
    bits = np.uint32((bits ^ (bits >> _SHORT_16)) * _SHORT_1)  # types would widen by themselves
    bits = np.uint32((bits ^ (bits >> _SHORT_15)) * _SHORT_2)
    return np.uint32(bits ^ (bits >> _SHORT_16))


@compiled
def halves(key: np.uint64) -> tuple[np.uint32, np.uint32]:
    """The low and high 32 bits of a key, as `short_bits` takes them."""
    return np.uint32(key), np.uint32(key >> _S32)


def hashes(key: np.uint64, counter: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """The 64 random bits behind each coin. counter [N] -> uint64[N]."""
    bits = key + (counter.astype(np.uint64) + _ONE) * GOLDEN
    bits = (bits ^ (bits >> _S30)) * _MULTIPLY_1
    bits = (bits ^ (bits >> _S27)) * _MULTIPLY_2
    bits ^= bits >> _S31
    return bits


def uniforms(key: np.uint64, counter: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """The coins of many counters at once, equal to `coin` / 2^53 one by one. [N] -> [N]."""
    return (hashes(key, counter) >> _S11).astype(np.float64) / COINS


def short_uniforms(key: np.uint64, counter: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """The short coins of many counters at once. [N] -> [N]."""
    bits = counter.astype(np.uint32)
    for half in (np.uint32(int(key) & 0xFFFFFFFF), np.uint32(int(key) >> 32)):
        bits = bits + half
        bits = (bits ^ (bits >> _SHORT_16)) * _SHORT_1
        bits = (bits ^ (bits >> _SHORT_15)) * _SHORT_2
        bits ^= bits >> _SHORT_16
    return bits.astype(np.float64) / SHORT_COINS


def derive_key(seed: int, *counters: int) -> np.uint64:
    """Mix a seed and counters (step, layer, purpose, ...) into the key of a stream of coins.

    The order of the counters matters: (1, 2) and (2, 1) name different streams.

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
    """Mix as in `coin`, in Python's integers."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * int(_MULTIPLY_1)) & _MASK
    value = ((value ^ (value >> 27)) * int(_MULTIPLY_2)) & _MASK
    return value ^ (value >> 31)
