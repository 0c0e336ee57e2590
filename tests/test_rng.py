"""Coins are uniform, independent over every counter, and the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from bliss.rng import derive_key, hashes, uniforms

PINNED_KEY = 2976281136248123983
PINNED_BITS = [14119027551971647172, 13047753885472383807, 7466858118360863178]

FALSE_ALARM = 1e-6  # chance that fair coins fail a test below


def test_draws_are_pinned():
    # A change here changes every published draw: say so in the changelog.
    assert int(derive_key(0, 0, 0)) == PINNED_KEY
    np.testing.assert_array_equal(hashes(derive_key(0, 0, 0), np.arange(3)), PINNED_BITS)


def grid(axis: str) -> np.ndarray:
    """10,000 coins in which only one counter moves."""
    moving = np.arange(10_000)
    if axis == "node":
        return uniforms(derive_key(5, 1, 0), moving)
    order = {"seed": (1, 0, 0), "step": (0, 1, 0), "layer": (0, 0, 1)}[axis]
    keys = [derive_key(5 + m * order[0], m * order[1], m * order[2]) for m in moving.tolist()]
    return np.array([uniforms(key, np.array([17]))[0] for key in keys])


@pytest.mark.parametrize("axis", ["node", "seed", "step", "layer"])
def test_coins_are_uniform_and_uncorrelated_along_every_counter(axis):
    coins = grid(axis)
    assert scipy.stats.kstest(coins, "uniform").pvalue > FALSE_ALARM
    centred = coins - 0.5
    for lag in (1, 2, 7):
        z = (centred[lag:] * centred[:-lag]).mean() * 12 * np.sqrt(coins.size - lag)
        assert abs(z) < scipy.stats.norm.isf(FALSE_ALARM / 6)


def test_the_check_of_uniformity_can_fail():
    assert scipy.stats.kstest(grid("node") ** 1.1, "uniform").pvalue < FALSE_ALARM
