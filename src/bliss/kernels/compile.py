"""How kernels are compiled: once, cached on disk, and without holding the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with strict IEEE arithmetic: sums keep the order they are written in.

    Divisions follow NumPy (no exception at 0), without which loops are not vectorised.
    """
    compile_ = numba.njit(cache=True, nogil=True, error_model="numpy")
    return cast("Callable[P, R]", compile_(function))


def compiled_reductions(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with sums free to be reordered, so that reductions use vector instructions."""
    relaxed = {"reassoc", "contract", "nsz"}
    compile_ = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=relaxed)
    return cast("Callable[P, R]", compile_(function))
