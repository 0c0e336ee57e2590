"""Rows of a sampler's state that have changed, so that checkpoints need not write the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bliss.arrays import BoolArray, IntArray
from bliss.policies.base import RowSets, State


class Changes:
    """Rows of state arrays that changed since `clear`: a byte per row and set of arrays.

    Before the first `clear`, any row counts as changed.
    """

    def __init__(self) -> None:
        self._marks: dict[tuple[str, ...], BoolArray] = {}
        self._is_everything = True

    def add(self, rows: RowSets | None, state: Callable[[], State]) -> None:
        """Note changed rows of the arrays of `state()`; None: any row of any array."""
        if rows is None:
            self._is_everything = True
            return
        for names, ids in rows.items():
            if names not in self._marks:
                self._marks[names] = np.zeros(len(state()[names[0]]), np.bool_)
            self._marks[names][ids] = True

    def rows(self) -> dict[str, IntArray] | None:
        """Changed rows by array; None: any row of any array."""
        if self._is_everything:
            return None
        found = {names: np.flatnonzero(mark) for names, mark in self._marks.items()}
        return {name: ids for names, ids in found.items() for name in names}

    def clear(self) -> None:
        """Start again: nothing has changed."""
        for mark in self._marks.values():
            mark[:] = False
        self._is_everything = False
