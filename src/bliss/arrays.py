"""Array types, defined once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
Bytes: TypeAlias = npt.NDArray[np.uint8]

NOTHING: FloatArray = np.empty(0, np.float64)
"""Empty array, passed to kernels in place of an optional array."""
NO_IDS: IntArray = np.empty(0, np.int64)
"""Empty array of ids."""
