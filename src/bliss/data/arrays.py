"""Arrays from files of unknown origin: nothing is unpickled, headers are held against the file."""

from __future__ import annotations

import math
import mmap
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bliss.errors import InputError

Array = npt.NDArray[Any]

# Python names this flag from 3.13 on; the value is Linux's on x86 and ARM.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000) if sys.platform == "linux" else 0


class _Header(NamedTuple):
    shape: tuple[int, ...]
    order: Any  # "C" or "F"
    dtype: np.dtype[Any]
    offset: int  # bytes before the numbers


def map_npy(file: Path) -> Array:
    """Map a .npy file, read-only, after its header was checked against the file's size."""
    header = _read_header(file)
    if math.prod(header.shape) == 0:
        return np.empty(header.shape, header.dtype)  # nothing to map
    return cast(
        "Array", np.memmap(file, header.dtype, "r", header.offset, header.shape, header.order)
    )


def map_npy_private(file: Path) -> Array:
    """Map a .npy file copy-on-write: writes stay in this process and torch does not warn.

    NumPy's mode "c" asks the system to set aside as much memory as the file is large, and Linux
    refuses files larger than that; here nothing is set aside.
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
    """Read a .npy file into memory, with the checks of `map_npy`."""
    return np.array(map_npy(file))


def read_npz(file: Path, required: Sequence[str] = (), optional: Sequence[str] = ()) -> Any:
    """Read the named arrays of an .npz file, and no others. dict of name -> array."""
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
            return {n: parts[n] for n in (*required, *optional) if n in parts.files}
    except InputError:
        raise
    except (
        ValueError,
        EOFError,
        OSError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise InputError(
            f"{file} cannot be read as arrays ({_first_line(error)}): it is cut short, not an "
            ".npz file or holds Python objects, which are never unpickled; save it again."
        ) from error


def read_sparse(file: Path, prefix: str = "") -> Any:
    """Read a SciPy sparse matrix (CSR, CSC or COO) and check each of its indices.

    With a prefix, "adj_" for instance, the parts of a CSR matrix are called adj_data, adj_indices,
    adj_indptr and adj_shape.
    """
    if prefix:
        form = "csr"
    else:
        form = np.asarray(read_npz(file, ("format",))["format"]).item()
        form = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
    if form not in ("csr", "csc", "coo"):
        raise InputError(f"{file} holds a {form!r} matrix: convert it with .tocsr() and save it.")
    index_names = ("row", "col") if form == "coo" else ("indices", "indptr")
    found = read_npz(file, [prefix + name for name in ("data", *index_names, "shape")])
    data, first, second, shape = found.values()
    for name, array in zip(index_names, (first, second), strict=True):
        if array.dtype.kind not in "iu":
            raise InputError(
                f"{file} has {prefix}{name} of type {array.dtype}, but indices are whole numbers: "
                "save the matrix again."
            )
    if data.dtype.kind not in "fiub":
        raise InputError(f"{file} has values of type {data.dtype}: save numbers.")
    size = tuple(int(side) for side in np.asarray(shape).reshape(-1))
    try:
        if form == "coo":
            return scipy.sparse.coo_matrix((data, (first, second)), shape=size)
        make = scipy.sparse.csr_matrix if form == "csr" else scipy.sparse.csc_matrix
        matrix = make((data, first, second), shape=size)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"{file} is no valid sparse matrix ({_first_line(error)}): save it again."
        ) from error
    return matrix


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
        if any(side < 0 for side in shape):
            raise ValueError(f"its header promises the shape {shape}")
        promised, found = offset + math.prod(shape) * dtype.itemsize, file.stat().st_size
        if promised != found:
            raise ValueError(f"its header promises {promised} bytes and the file has {found}")
    except (ValueError, EOFError, OSError) as error:
        raise InputError(
            f"{file} cannot be read as an array ({_first_line(error)}): it is missing, cut short "
            "or not a .npy file of numbers, save it again."
        ) from error
    return _Header(shape, "F" if fortran else "C", dtype, offset)


def _first_line(error: Exception) -> str:
    """What went wrong, short enough to stand inside a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".:")[:200]
