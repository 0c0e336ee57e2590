"""Read and write .npy and .npz files of unknown origin.

Nothing is unpickled, and only numbers are read. A header is checked against the size of its file or
archive member before any memory is allocated.
"""

from __future__ import annotations

import math
import mmap
import sys
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

import numpy as np
import scipy.sparse

from bliss.arrays import Array
from bliss.data.safe_reading import check_unpacked, first_line, reading, unpack_limit
from bliss.errors import InputError
from bliss.storage.files import check_regular

_NUMBERS = "biuf"  # kinds of bool, integers and floats
_TEXTS = "SU"
_CHUNK = 1 << 24  # bytes

# Python names this flag from 3.13 on; the value is that of Linux on x86 and ARM.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000) if sys.platform == "linux" else 0


class _Header(NamedTuple):
    shape: tuple[int, ...]
    order: Any  # "C" or "F"
    dtype: np.dtype[Any]
    offset: int  # bytes before the values


def map_npy(file: Path) -> Array:
    """Map a .npy file into memory, read-only."""
    return _map(file, _read_header(file), "r")


def _map(file: Path, header: _Header, mode: Literal["r", "c"]) -> Array:
    shape = header.shape
    if math.prod(shape) == 0:
        return np.empty(shape, header.dtype)  # an empty range cannot be mapped
    return cast("Array", np.memmap(file, header.dtype, mode, header.offset, shape, header.order))


def map_npy_private(file: Path) -> Array:
    """Map a .npy file copy-on-write: writes stay in this process, and torch does not warn.

    NumPy's mode "c" reserves as much memory as the file is large, and Linux refuses that for files
    larger than memory. This function reserves nothing.
    """
    header = _read_header(file)
    if sys.platform != "linux" or math.prod(header.shape) == 0:
        return _map(file, header, "c")
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
    """Write an array of numbers.

    Unlike `np.save`, this raises an error with the system's number if the disk is full.
    """
    content = np.ascontiguousarray(array)
    with open(file, "wb") as stream:
        header = np.lib.format.header_data_from_array_1_0(content)
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(content.data)


def write_npy_rows(
    file: Path, chunks: Iterable[Array], shape: tuple[int, int], dtype: type
) -> None:
    """Write a .npy file chunk by chunk. The rows of all chunks together make up `shape`.

    The file is written rather than mapped, because a full disk makes a write raise an error and a
    mapping raise a signal.
    """
    with open(file, "wb") as stream:
        _write_header(stream, np.dtype(dtype), shape)
        rows = 0
        for chunk in chunks:
            stream.write(np.ascontiguousarray(chunk, dtype).data)
            rows += len(chunk)
        if rows != shape[0]:
            raise InputError(
                f"{file.name} should have {shape[0]} rows, but its source gave {rows}: the source "
                "changed while it was read, try again."
            )


class GrowingNpy:
    """A one-dimensional .npy file that is written part by part; its length is known at the end."""

    def __init__(self, file: Path, dtype: type) -> None:
        self.dtype, self.size = np.dtype(dtype), 0
        self._stream = open(file, "wb")  # noqa: SIM115
        try:
            self._offset = _write_header(self._stream, self.dtype, (0,))
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> GrowingNpy:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stream:
            if kind is not None:
                return
            if _write_header(self._stream, self.dtype, (self.size,)) != self._offset:
                raise ValueError(f"the header of {self._stream.name} has grown")

    def write(self, part: Array) -> None:
        """Append numbers. [N]."""
        self._stream.write(np.ascontiguousarray(part, self.dtype).data)
        self.size += part.size


def _write_header(stream: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Write a header at the start of a file; returns its length."""
    stream.seek(0)
    kind = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(stream, header)
    return stream.tell()


class NpyRows:
    """A .npy file that is read in parts.

    The parts are read rather than mapped, because a file that is cut short meanwhile makes a read
    return less and a mapping raise a signal.
    """

    def __init__(self, file: Path) -> None:
        self._header = _read_header(file)
        self.file, self.shape, self.dtype = file, self._header.shape, self._header.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int, stop: int, axis: int = 0) -> Array:
        """Entries start to stop - 1 along an axis of an array of one or two dimensions."""
        length = self.shape[axis]
        size = min(stop, length) - start
        others = math.prod(self.shape) // max(length, 1)
        slow = 0 if self._header.order == "C" else len(self.shape) - 1  # the outer axis
        whole = axis == slow
        part = np.empty((size, others) if whole else (others, size), self.dtype)
        border = reading(self.file, "an array", "it has changed, write it again")
        with border, open(self.file, "rb", buffering=0) as stream:
            if whole:
                self._fill(stream, start * others, part)
            else:
                for place, row in enumerate(part):
                    self._fill(stream, place * length + start, row)
        part = part if whole == (axis == 0) else part.T
        return part if len(self.shape) == 2 else part.reshape(-1)

    def _fill(self, stream: Any, start: int, part: Array) -> None:
        """Read the values from position `start` on."""
        stream.seek(self._header.offset + start * self.dtype.itemsize)
        left = part.reshape(-1).view(np.uint8).data
        while len(left):
            size = stream.readinto(left)
            if not size:
                raise ValueError("it was cut short while it was read")
            left = left[size:]


def npz_names(file: Path) -> list[str]:
    """Names of the arrays in an .npz file."""
    with _reading_npz(file), zipfile.ZipFile(file) as archive:
        return list(_members(archive))


def read_npz(
    file: Path, required: Sequence[str] = (), optional: Sequence[str] = (), kinds: str = _NUMBERS
) -> dict[str, Array]:
    """Read the named arrays of an .npz file, and no others, by name.

    The sizes that the archive declares are compared with `unpack_limit` first. `kinds` are the
    allowed kinds of NumPy types.
    """
    with _reading_npz(file), zipfile.ZipFile(file) as archive:
        members = _members(archive)
        for name in required:
            if name not in members:
                raise InputError(
                    f"{file} has no array {name!r}, only {', '.join(members) or 'none'}: "
                    "save it again with that array."
                )
        chosen = {name: members[name] for name in (*required, *optional) if name in members}
        check_unpacked(file, sum(info.file_size for info in chosen.values()))
        return {name: _read_member(archive, info, kinds) for name, info in chosen.items()}


def read_sparse(file: Path, prefix: str = "") -> Any:
    """Read a SciPy sparse matrix (CSR, CSC or COO) and check all of its indices.

    With a prefix such as "adj_", the file holds a CSR matrix as the arrays adj_data, adj_indices,
    adj_indptr and adj_shape.
    """
    form = "csr" if prefix else _format(file)
    if form not in ("csr", "csc", "coo"):
        raise InputError(f"{file} holds a {form!r} matrix: convert it with .tocsr() and save it.")
    index_names = ("row", "col") if form == "coo" else ("indices", "indptr")
    arrays = read_npz(file, [prefix + name for name in ("data", *index_names, "shape")])
    data, first, second, shape = arrays.values()
    for name, array in zip(index_names, (first, second), strict=True):
        if array.dtype.kind not in "iu":
            raise InputError(
                f"{file} has {prefix}{name} of type {array.dtype}, but indices are integers: "
                "save the matrix again."
            )
    with reading(file, "a sparse matrix", "save it again"):
        size = tuple(int(side) for side in shape.reshape(-1))
        longest = 8 * max(size, default=0)  # bytes of one number per row or column
        if longest > unpack_limit(file):
            check_unpacked(file, longest, f"its shape {size} needs at least")
        if form == "coo":
            return scipy.sparse.coo_matrix((data, (first, second)), shape=size)
        make = scipy.sparse.csr_matrix if form == "csr" else scipy.sparse.csc_matrix
        matrix = make((data, first, second), shape=size)
        matrix.check_format(full_check=True)
    return matrix


def _reading_npz(file: Path) -> AbstractContextManager[None]:
    remedy = (
        "it is truncated, is not an .npz file or holds Python objects, which are never unpickled; "
        "save it again"
    )
    return reading(file, "arrays", remedy)


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Members of an .npz archive by the name of their array."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"the array {name!r} is there twice")
        members[name] = info
    return members


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kinds: str) -> Array:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("it is compressed in a way that NumPy does not use")
    with archive.open(info) as stream:  # gives at most info.file_size bytes, and checks their CRC
        header = _parse_header(stream, info.file_size, kinds)
        array = np.empty(math.prod(header.shape), header.dtype)
        content = array.view(np.uint8).data
        for start in range(0, len(content), _CHUNK):
            part = content[start : start + _CHUNK]
            part[:] = stream.read(len(part))
    return array.reshape(header.shape, order=header.order)


def _format(file: Path) -> str:
    form = read_npz(file, ("format",), kinds=_TEXTS)["format"]
    if form.size != 1:
        raise InputError(f"{file} does not name one matrix format: save it with scipy.sparse.")
    name = form.reshape(())[()]
    return name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)


def _read_header(file: Path) -> _Header:
    check_regular(file)
    try:
        with open(file, "rb") as stream:
            return _parse_header(stream, file.stat().st_size, _NUMBERS)
    except Exception as error:  # NumPy parses the header as Python text, which can raise anything
        raise InputError(
            f"{file} cannot be read as an array ({first_line(error)}): it is truncated or not a "
            ".npy file of numbers; save it again."
        ) from error


def _parse_header(stream: IO[bytes], size: int, kinds: str) -> _Header:
    """Header of an array whose file or archive member has `size` bytes."""
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
    if dtype.kind not in kinds or dtype.itemsize == 0:
        wanted = "numbers" if kinds == _NUMBERS else "text"
        raise ValueError(f"its type {dtype} is not one of {wanted}")
    if len(shape) > 8 or any(type(side) is not int or not 0 <= side < 2**62 for side in shape):
        raise ValueError(f"its header promises the shape {shape}")
    promised = offset + math.prod(shape) * dtype.itemsize
    if promised != size:
        raise ValueError(f"its header promises {promised} bytes and the file has {size}")
    if promised == offset:
        np.empty(shape, dtype)  # raises for sides whose product NumPy cannot hold
    return _Header(shape, "F" if fortran else "C", dtype, offset)
