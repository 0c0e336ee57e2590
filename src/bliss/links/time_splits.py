"""Splits by time: earlier seeds are for training, later ones for validation and testing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss.arrays import Array
from bliss.errors import InputError
from bliss.links.fractions import SPLITS, WHOLE, Window

LATER = 3
"""Split of seeds after the test window: neither trained on nor seen."""


def split_by_time(time: Array, shares: Sequence[float], window: Window = WHOLE) -> Array:
    """Position of each time in (train, val, test), or LATER. [N], not decreasing -> int8[N].

    With N times, shares (a, v, t) and window k of n, the first of each split is at

        val   round(N (a + (k - 1) t / n))
        test  round(N (a + v + (k - 1) t / n))
        LATER round(N (a + v + k t / n))

    Equal times are in one split, the later of two.
    """
    passed = shares[2] * (window.number - 1) / window.of
    starts = shares[0] + passed, shares[0] + shares[1] + passed
    ends = np.array([*starts, starts[1] + shares[2] / window.of])
    first = np.round(ends * time.size).astype(np.int64).clip(max=time.size)
    inside = first < time.size
    first[inside] = np.searchsorted(time, time[first[inside]])
    split: Array = np.searchsorted(first, np.arange(time.size), side="right").astype(np.int8)
    return split


def check_some(split: Array, time: Array, unit: str, window: Window, remedy: str) -> None:
    """Raise an error if a split by time has no seeds. split, time [N]; unit: nodes or links."""
    for number, name in enumerate(SPLITS):
        if (split == number).any():
            continue
        fewer = "choose fewer windows, or " if window.of > 1 else ""
        raise InputError(
            f"the {name} split by time has no {unit}: those of one time are in one split, and "
            f"{time.size:,} {unit} have {np.unique(time).size:,} different times: {fewer}{remedy}."
        )
