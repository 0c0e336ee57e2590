"""Restricted reader of Planetoid's files, which are pickles of Python 2.

A pickle is a program. This reader replaces each class that a Planetoid file needs by an inert
record of its arguments and state, refuses all other names, and builds arrays from the records after
checking them. NumPy and SciPy never see a forged state, which could corrupt memory.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse

from bliss.arrays import Array
from bliss.data.safe_reading import first_line
from bliss.errors import InputError

_KINDS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")


class _Record:
    """Arguments and state of one object of the pickle."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Kind(_Record):
    """Record of a `numpy.dtype`."""


class _Class(_Record):
    """Stand-in for `numpy.ndarray` and `list`, which appear only as arguments."""


class _Array(_Record):
    """Record of a `numpy.ndarray`."""


class _Sparse(_Record):
    """Record of a `scipy.sparse.csr_matrix`."""


class _Lists(dict[Any, Any]):
    """Replacement of `defaultdict(list)`."""

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
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _NAMES[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it asks for an external object")


def read_planetoid_pickle(file: Path) -> Any:
    """Read an array, a CSR matrix or a dict of lists from a file that is not trusted."""
    try:
        program = file.read_bytes()
        _check_memo(program)
        content = _Unpickler(io.BytesIO(program), encoding="latin1").load()
        if isinstance(content, _Array):
            return _array(content)
        if isinstance(content, _Sparse):
            return _matrix(content)
        if isinstance(content, dict):
            return content
        raise pickle.UnpicklingError("it holds neither an array nor a matrix nor lists")
    except Exception as error:  # a forged pickle can raise anything
        raise InputError(
            f"{file} cannot be read as a Planetoid file ({first_line(error)}): it is damaged or of "
            "another format, download it again."
        ) from error


def _check_memo(program: bytes) -> None:
    """Raise if an object is kept under a number that no pickler gives.

    Picklers number objects from 0 or 1 on. The unpickler allocates a table up to the largest number
    that it meets, so that nine bytes could take 30 GB.
    """
    kept = 0
    for instruction, number, _ in pickletools.genops(program):
        if instruction.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            kept += 1
            if not isinstance(number, int) or number > kept:
                raise pickle.UnpicklingError(f"it keeps an object under the number {number}")


def _array(record: Any) -> Array:
    if not isinstance(record, _Array):
        raise pickle.UnpicklingError("an array is missing")
    _, shape, kind, is_fortran, content = record.state
    if isinstance(content, str):  # byte strings of Python 2
        content = content.encode("latin1")
    if not isinstance(kind, _Kind) or kind.arguments[0] not in _KINDS:
        raise pickle.UnpicklingError("an array is not of numbers")
    order = kind.state[1] if kind.state else "|"
    dtype = np.dtype((order if order in "<>" else "=") + kind.arguments[0])
    sides = tuple(int(side) for side in shape)
    if math.prod(sides) * dtype.itemsize != len(content) or any(side < 0 for side in sides):
        raise pickle.UnpicklingError(f"an array of shape {sides} has {len(content)} bytes")
    values = np.frombuffer(content, dtype).reshape(sides, order="F" if is_fortran else "C")
    return cast("Array", values.astype(dtype.newbyteorder("=")))


def _matrix(record: _Sparse) -> Any:
    state = record.state
    shape = tuple(int(side) for side in state["_shape"])
    parts = (_array(state["data"]), _array(state["indices"]), _array(state["indptr"]))
    matrix = scipy.sparse.csr_matrix(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix
