"""Planetoid's files are pickles of Python 2; they are read without running anything in them.

A pickle is a program. Ours may name six things: each stands for an inert record of what the
program says about it, and arrays are then made from those records by the rules of this file. No
code of NumPy or SciPy ever sees the program's state, which can be forged to corrupt memory.
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bliss.errors import InputError

_KINDS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")


class _Record:
    """What a pickle says of one object: the arguments it is made with, and its state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Kind(_Record):
    """For `numpy.dtype`."""


class _Class(_Record):
    """For `numpy.ndarray`, which is only named."""


class _Array(_Record):
    """For an array."""


class _Sparse(_Record):
    """For a SciPy CSR matrix."""


class _Lists(dict[Any, Any]):
    """For `defaultdict(list)`."""

    def __init__(self, *_factory: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("a table of lists has no state")


_NAMES: dict[tuple[str, str], type] = {
    ("numpy", "dtype"): _Kind,
    ("numpy", "ndarray"): _Class,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Sparse,
    ("scipy.sparse._csr", "csr_matrix"): _Sparse,
    ("collections", "defaultdict"): _Lists,
    ("__builtin__", "list"): _Class,
    ("builtins", "list"): _Class,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it asks for something outside itself")


def read_planetoid_pickle(file: Path) -> Any:
    """An array, a CSR matrix, or a dict of lists, from a file that is not trusted."""
    try:
        with open(file, "rb") as stream:
            content = _Unpickler(stream, encoding="latin1").load()
        if isinstance(content, _Array):
            return _array(content)
        if isinstance(content, _Sparse):
            return _matrix(content)
        if isinstance(content, dict):
            return content
        raise pickle.UnpicklingError("it holds neither an array, nor a matrix, nor lists")
    except Exception as error:  # a forged pickle can raise anything
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise InputError(
            f"{file} cannot be read as a Planetoid file ({reason}): it is damaged or not what it "
            "says, get it again."
        ) from error


def _array(record: Any) -> npt.NDArray[Any]:
    if not isinstance(record, _Array):
        raise pickle.UnpicklingError("an array is missing")
    _, shape, kind, is_fortran, content = record.state
    if isinstance(content, str):  # bytes of Python 2
        content = content.encode("latin1")
    if not isinstance(kind, _Kind) or kind.arguments[0] not in _KINDS:
        raise pickle.UnpicklingError("an array is not of numbers")
    order = kind.state[1] if kind.state else "|"
    dtype = np.dtype((order if order in "<>" else "=") + kind.arguments[0])
    sides = tuple(int(side) for side in shape)
    if math.prod(sides) * dtype.itemsize != len(content) or any(side < 0 for side in sides):
        raise pickle.UnpicklingError(f"an array of shape {sides} has {len(content)} bytes")
    values = np.frombuffer(content, dtype).reshape(sides, order="F" if is_fortran else "C")
    return cast("npt.NDArray[Any]", values.astype(dtype.newbyteorder("=")))


def _matrix(record: _Sparse) -> Any:
    state = record.state
    shape = tuple(int(side) for side in state["_shape"])
    parts = (_array(state["data"]), _array(state["indices"]), _array(state["indptr"]))
    matrix = scipy.sparse.csr_matrix(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix
