"""Decorators that compile kernels: once, cached on disk, and without holding the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with strict IEEE arithmetic: sums are evaluated in the order they are written.

    Division by 0 raises no exception, as in NumPy; otherwise loops would not be vectorised.
    """
    compile_ = numba.njit(cache=True, nogil=True, error_model="numpy")
    return cast("Callable[P, R]", compile_(function))


def compiled_reductions(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with reordering of sums allowed, so that reductions use vector instructions."""
    relaxed = {"reassoc", "contract", "nsz"}
    compile_ = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=relaxed)
    return cast("Callable[P, R]", compile_(function))
