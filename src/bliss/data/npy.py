"""Read and write .npy and .npz files of unknown origin.

Nothing is unpickled. The header of a .npy file is checked against the size of the file before any
memory is allocated.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse

from bliss.arrays import Array
from bliss.errors import InputError

# Python names this flag from 3.13 on; the value is that of Linux on x86 and ARM.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000) if sys.platform == "linux" else 0


class _Header(NamedTuple):
    shape: tuple[int, ...]
    order: Any  # "C" or "F"
    dtype: np.dtype[Any]
    offset: int  # bytes before the values


def map_npy(file: Path) -> Array:
    """Map a .npy file into memory, read-only."""
    header = _read_header(file)
    if math.prod(header.shape) == 0:
        return np.empty(header.shape, header.dtype)  # an empty range cannot be mapped
    return cast(
        "Array", np.memmap(file, header.dtype, "r", header.offset, header.shape, header.order)
    )


def map_npy_private(file: Path) -> Array:
    """Map a .npy file copy-on-write: writes stay in this process, and torch does not warn.

    NumPy's mode "c" reserves as much memory as the file is large, and Linux refuses that for files
    larger than memory. This function reserves nothing.
    """
    header = _read_header(file)
    if math.prod(header.shape) == 0:
        return np.empty(header.shape, header.dtype)
    if sys.platform != "linux":
        return cast(
            "Array", np.memmap(file, header.dtype, "c", header.offset, header.shape, header.order)
        )
    with open(file, "rb") as stream:
        mapping = mmap.mmap(
            stream.fileno(),
            0,
            flags=mmap.MAP_PRIVATE | _NO_RESERVE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
    return np.ndarray(header.shape, header.dtype, mapping, header.offset, order=header.order)


def read_npy(file: Path) -> Array:
    """Read a .npy file into memory."""
    return np.array(map_npy(file))


def write_npy(file: Path, array: Array) -> None:
    """Write an array of numbers."""
    np.save(file, array, allow_pickle=False)


def write_npy_rows(
    file: Path, chunks: Iterable[Array], shape: tuple[int, int], dtype: type
) -> None:
    """Write a .npy file chunk by chunk. The rows of all chunks together make up `shape`.

    The file is written rather than mapped, because a full disk makes a write raise an error and a
    mapping raise a signal.
    """
    with open(file, "wb") as stream:
        kind = np.lib.format.dtype_to_descr(np.dtype(dtype))
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(stream, header)
        rows = 0
        for chunk in chunks:
            stream.write(np.ascontiguousarray(chunk, dtype).data)
            rows += len(chunk)
        if rows != shape[0]:
            raise InputError(
                f"{file.name} should have {shape[0]} rows, but its source gave {rows}: the source "
                "changed while it was read, try again."
            )


def read_npz(
    file: Path, required: Sequence[str] = (), optional: Sequence[str] = ()
) -> dict[str, Array]:
    """Read the named arrays of an .npz file, and no others, by name."""
    try:
        with open(file, "rb") as stream:  # NumPy leaves a damaged archive open
            parts = np.load(stream, allow_pickle=False)
            if not isinstance(parts, np.lib.npyio.NpzFile):
                raise ValueError("it is no archive of arrays")
            for name in required:
                if name not in parts.files:
                    raise InputError(
                        f"{file} has no array {name!r}, only {', '.join(parts.files) or 'none'}: "
                        "save it again with that array."
                    )
            return {name: parts[name] for name in (*required, *optional) if name in parts.files}
    except InputError:
        raise
    except Exception as error:  # a damaged archive can raise almost anything
        raise InputError(
            f"{file} cannot be read as arrays ({first_line(error)}): it is truncated, is not an "
            ".npz file or holds Python objects, which are never unpickled; save it again."
        ) from error


def read_sparse(file: Path, prefix: str = "") -> Any:
    """Read a SciPy sparse matrix (CSR, CSC or COO) and check all of its indices.

    With a prefix such as "adj_", the file holds a CSR matrix as the arrays adj_data, adj_indices,
    adj_indptr and adj_shape.
    """
    form = "csr" if prefix else _format(file)
    if form not in ("csr", "csc", "coo"):
        raise InputError(f"{file} holds a {form!r} matrix: convert it with .tocsr() and save it.")
    index_names = ("row", "col") if form == "coo" else ("indices", "indptr")
    found = read_npz(file, [prefix + name for name in ("data", *index_names, "shape")])
    data, first, second, shape = found.values()
    for name, array in zip(index_names, (first, second), strict=True):
        if array.dtype.kind not in "iu":
            raise InputError(
                f"{file} has {prefix}{name} of type {array.dtype}, but indices are integers: "
                "save the matrix again."
            )
    if data.dtype.kind not in "fiub":
        raise InputError(f"{file} has values of type {data.dtype}: save numbers.")
    try:
        size = tuple(int(side) for side in shape.reshape(-1))
        if form == "coo":
            return scipy.sparse.coo_matrix((data, (first, second)), shape=size)
        make = scipy.sparse.csr_matrix if form == "csr" else scipy.sparse.csc_matrix
        matrix = make((data, first, second), shape=size)
        matrix.check_format(full_check=True)
    except Exception as error:  # SciPy raises several types for parts that do not fit
        raise InputError(
            f"{file} is not a valid sparse matrix ({first_line(error)}): save it again."
        ) from error
    return matrix


def first_line(error: Exception) -> str:
    """First line of an error message, to be quoted inside a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".:")[:200]


def _format(file: Path) -> str:
    form = read_npz(file, ("format",))["format"]
    if form.size != 1 or form.dtype.kind not in "SU":
        raise InputError(f"{file} does not name one matrix format: save it with scipy.sparse.")
    name = form.reshape(())[()]
    return name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)


def _read_header(file: Path) -> _Header:
    try:
        with open(file, "rb") as stream:
            version = np.lib.format.read_magic(stream)
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            elif version == (2, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
            else:
                raise ValueError(f"its format version is {version}")
            offset = stream.tell()
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are never unpickled")
        if dtype.itemsize == 0:
            raise ValueError(f"its type {dtype} has no bytes")
        if len(shape) > 8 or any(type(side) is not int or not 0 <= side < 2**62 for side in shape):
            raise ValueError(f"its header promises the shape {shape}")
        promised, found = offset + math.prod(shape) * dtype.itemsize, file.stat().st_size
        if promised != found:
            raise ValueError(f"its header promises {promised} bytes and the file has {found}")
        if promised == offset:
            np.empty(shape, dtype)  # raises for sides whose product NumPy cannot hold
    except Exception as error:  # NumPy parses the header as Python text, which can raise anything
        raise InputError(
            f"{file} cannot be read as an array ({first_line(error)}): it is missing, truncated "
            "or not a .npy file of numbers; save it again."
        ) from error
    return _Header(shape, "F" if fortran else "C", dtype, offset)
