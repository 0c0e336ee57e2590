"""Values of the last survey, stored as one byte each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from bliss.storage.memory import LazyZeros, zeros

Codes = npt.NDArray[np.uint8]
_NONE: Codes = np.empty(0, np.uint8)


class Surveyed:
    """Arrays of codes by layer and kind, allocated when a survey sets them.

    `name` is the prefix of their names in a state, `lengths` the length of each kind.
    """

    def __init__(self, name: str, layers: int, lengths: Mapping[str, int]) -> None:
        self._name = name
        self._codes = {
            f"{name}.{layer}.base_{kind}": LazyZeros(length, np.uint8)
            for layer in range(layers)
            for kind, length in lengths.items()
        }
        self._place = {array: place for place, array in enumerate(self._codes)}
        self._is_set = zeros(len(self._codes), np.bool_)  # by place

    def get(self, layer: int, kind: str) -> Codes:
        """The codes of a layer; empty if they were not surveyed."""
        name = f"{self._name}.{layer}.base_{kind}"
        return self._codes[name]() if name in self._codes and self._was_surveyed(name) else _NONE

    def put(self, layer: int, kind: str, codes: Codes) -> Codes:
        """Copy the codes of a layer; returns the copy."""
        name = f"{self._name}.{layer}.base_{kind}"
        kept: Codes = self._codes[name]()
        kept[:] = codes
        self._is_set[self._place[name]] = True
        return kept

    def expect(self, names: Iterable[str]) -> None:
        """Mark as surveyed exactly the arrays that a saved state names."""
        expected = set(names)
        for name, place in self._place.items():
            self._is_set[place] = name in expected

    def state_dict(self) -> dict[str, Codes]:
        """The surveyed arrays by name."""
        return {name: codes() for name, codes in self._codes.items() if self._was_surveyed(name)}

    def _was_surveyed(self, name: str) -> bool:
        return bool(self._is_set[self._place[name]])
