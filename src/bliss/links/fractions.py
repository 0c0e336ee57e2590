"""Shares of links in the splits; part of the settings, so that nothing slow is imported."""

from __future__ import annotations

from typing import Any, NamedTuple

from bliss.errors import InputError

SPLITS = ("train", "val", "test")
FRACTIONS = (0.85, 0.05, 0.1)
"""Shares of train, val and test by default."""


class Window(NamedTuple):
    """One of several windows of equal size into which the test share is cut, from 1 to `of`."""

    number: int
    of: int


WHOLE = Window(1, 1)
"""The whole test share."""


def check_fractions(fractions: Any) -> tuple[float, float, float]:
    """Three shares above 0 that add up to 1: train, val and test."""
    is_list = isinstance(fractions, (tuple, list)) and len(fractions) == len(SPLITS)
    if not is_list or not all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and 0 < one < 1
        for one in fractions
    ):
        raise InputError(
            f"edge_split={fractions!r} must be three shares between 0 and 1, of train, val and "
            "test: write for instance 0.85,0.05,0.1."
        )
    if abs(sum(fractions) - 1) > 1e-9:
        raise InputError(
            f"edge_split={tuple(fractions)} adds up to {sum(fractions):.6g}, but each link is in "
            "one split: change a share so that the sum is 1."
        )
    train, val, test = map(float, fractions)
    return train, val, test
