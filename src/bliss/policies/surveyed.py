"""Values of the last survey, a byte each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]
_NONE: Codes = np.empty(0, np.uint8)


class Surveyed:
    """Arrays of codes by layer and kind, allocated when a survey sets them.

    Parameters
    ----------
    name
        Prefix of the arrays' names in a state.
    layers
        Number of layers.
    lengths
        Length of each kind of array.
    """

    def __init__(self, name: str, layers: int, lengths: Mapping[str, int]) -> None:
        self._lengths = {
            f"{name}.{layer}.base_{kind}": length
            for layer in range(layers)
            for kind, length in lengths.items()
        }
        self._name = name
        self.codes: dict[str, Codes] = {}  # by name in a state

    def get(self, layer: int, kind: str) -> Codes:
        """The codes of a layer; empty if they were not surveyed."""
        return self.codes.get(f"{self._name}.{layer}.base_{kind}", _NONE)

    def put(self, layer: int, kind: str, codes: Codes) -> Codes:
        """Copy the codes of a layer; returns the copy."""
        self.codes[f"{self._name}.{layer}.base_{kind}"] = kept = codes.copy()
        return kept

    def room(self, names: Iterable[str]) -> dict[str, Codes]:
        """New arrays for the surveyed values among these names of a saved state."""
        return {
            name: np.empty(self._lengths[name], np.uint8) for name in names if name in self._lengths
        }
