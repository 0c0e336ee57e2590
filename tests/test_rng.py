"""Coins are uniform, independent over every counter, and the same on every machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from bliss.kernels.coins import halves, short_bits
from bliss.rng import derive_key, hashes, short_uniforms, uniforms

PINNED_KEY = 2976281136248123983
PINNED_SHORT = [316108865, 135257138, 29891699]
PINNED_BITS = [14119027551971647172, 13047753885472383807, 7466858118360863178]

FALSE_ALARM = 1e-6  # chance that fair coins fail a test below


def test_draws_are_pinned():
    # A change here changes every published draw: say so in the changelog.
    assert int(derive_key(0, 0, 0)) == PINNED_KEY
    np.testing.assert_array_equal(hashes(derive_key(0, 0, 0), np.arange(3)), PINNED_BITS)


def test_short_draws_are_pinned_and_the_same_one_by_one_and_at_once():
    key = derive_key(0, 0, 0)
    coins = short_uniforms(key, np.arange(1000))
    one_by_one = [short_bits(*halves(key), np.uint32(c)) / 2**32 for c in range(1000)]
    np.testing.assert_array_equal(coins, one_by_one)
    assert (coins[:3] * 2**32).astype(np.int64).tolist() == PINNED_SHORT


def grid(axis: str, draw: Callable[..., np.ndarray]) -> np.ndarray:
    """10,000 coins in which only one counter moves."""
    moving = np.arange(10_000)
    if axis == "node":
        return draw(derive_key(5, 1, 0), moving)
    order = {"seed": (1, 0, 0), "step": (0, 1, 0), "layer": (0, 0, 1)}[axis]
    keys = [derive_key(5 + m * order[0], m * order[1], m * order[2]) for m in moving.tolist()]
    return np.array([draw(key, np.array([17]))[0] for key in keys])


@pytest.mark.parametrize("draw", [uniforms, short_uniforms])
@pytest.mark.parametrize("axis", ["node", "seed", "step", "layer"])
def test_coins_are_uniform_and_uncorrelated_along_every_counter(axis, draw):
    coins = grid(axis, draw)
    assert scipy.stats.kstest(coins, "uniform").pvalue > FALSE_ALARM
    centred = coins - 0.5
    for lag in (1, 2, 7):
        z = (centred[lag:] * centred[:-lag]).mean() * 12 * np.sqrt(coins.size - lag)
        assert abs(z) < scipy.stats.norm.isf(FALSE_ALARM / 6)


@pytest.mark.parametrize("draw", [uniforms, short_uniforms])
def test_pairs_of_nodes_are_independent_over_steps(draw):
    # Two nodes' coins, over 4,000 steps, in a 4 x 4 table; the worst of 40 pairs.
    keys = [derive_key(3, step, 0) for step in range(4000)]
    near = np.arange(20) * 997
    coins = np.array([draw(key, np.concatenate([near, near + 1, near + 2**20])) for key in keys])
    worst = 1.0
    pairs = [(a, a + 20) for a in range(20)] + [(a, a + 40) for a in range(20)]
    for a, b in pairs:
        table = np.histogram2d(coins[:, a], coins[:, b], bins=4, range=[[0, 1], [0, 1]])[0]
        worst = min(worst, scipy.stats.chisquare(table.ravel()).pvalue)
    assert worst > FALSE_ALARM / len(pairs)
    assert scipy.stats.chisquare((table * np.linspace(0.8, 1.2, 4)).ravel()).pvalue < FALSE_ALARM


def test_the_check_of_uniformity_can_fail():
    assert scipy.stats.kstest(grid("node", uniforms) ** 1.1, "uniform").pvalue < FALSE_ALARM
