"""Arrays that are mapped from files: which file, whether it is still whole, and fast random reads.

The operating system expects a map to be read in order: on a miss it reads some 128 KB around the
page. Rows of a batch lie anywhere, so `RowReader` reads them from the file instead, in the order in
which they lie there, after it has announced all of them. This needs Linux; elsewhere, and for files
that are small beside the memory, maps are read as they are.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bliss.arrays import Array, FloatArray, IntArray
from bliss.errors import DamagedError, TruncatedError
from bliss.storage.limits import memory_limit

SMALLEST = 4096
"""Bytes of an array from which on it may be mapped."""
_MAPS = Path("/proc/self/maps")


def new_map(
    file: IO[bytes], shape: tuple[int, ...], dtype: npt.DTypeLike, offset: int = 0
) -> Array:
    """Zeros in an open file, mapped from `offset` on. The space on the disk is reserved first.

    Without that, a write to the map on a full disk would end the process by a signal. Raises an
    `OSError` if there is too little space.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    file.flush()
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, max(offset + size, 1))
    else:
        file.truncate(offset + size)
    if not size:
        return np.zeros(shape, kind)
    array: Array = np.memmap(file, kind, "r+", offset, shape)
    return array


def new_npy(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Zeros in a new .npy file, mapped, as `new_map` makes them."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    with path.open("w+b") as file:
        np.lib.format.write_array_header_1_0(file, header)
        return new_map(file, shape, dtype, file.tell())


class MappedFile(NamedTuple):
    """The file that an array is mapped from."""

    path: Path
    offset: int  # of the array's first byte
    size: int  # bytes of the file

    def check(self) -> None:
        """Raise an error if the file is shorter than it was."""
        try:
            size = os.stat(self.path).st_size
        except OSError:
            return  # removed: the map keeps the content
        if size < self.size:
            raise TruncatedError(
                f"{self.path} had {self.size:,} bytes and was cut to {size:,} while it was in use: "
                "restore the file, then run the same command with --resume."
            )


def files_of(arrays: Iterable[Array]) -> list[MappedFile | None]:
    """The file that each array is mapped from; None if it is in memory or the file has no name.

    Arrays of less than a page count as in memory.
    """
    large = [array if array.nbytes >= SMALLEST else None for array in arrays]
    if not any(array is not None for array in large) or not _MAPS.exists():
        return [None for _ in large]
    lines = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return [None if array is None else _file_of(array, lines) for array in large]


def _file_of(array: Array, lines: list[str]) -> MappedFile | None:
    """The file of an array, by the lines of /proc/self/maps."""
    address = array.__array_interface__["data"][0]
    for line in lines:
        ends, _, offset, _, node, *path = line.split(maxsplit=5)
        first, last = (int(end, 16) for end in ends.split("-"))
        if not first <= address < last:
            continue
        if not path or not path[0].startswith("/"):
            return None
        try:
            status = os.stat(path[0])
        except OSError:
            return None
        if status.st_ino != int(node):
            return None
        return MappedFile(Path(path[0]), int(offset, 16) + address - first, status.st_size)
    return None


def release(arrays: Iterable[Array]) -> None:
    """Take the pages of shared maps out of the process; the system may keep them in its cache.

    Arrays in memory and private maps, which may have been changed, are left alone.
    """
    if sys.platform != "linux":
        return
    shared = []
    for line in _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        ends, access, *_ = line.split(maxsplit=2)
        if access.endswith("s"):
            shared.append([int(end, 16) for end in ends.split("-")])
    system = ctypes.CDLL(None)
    for array in arrays:
        start = array.__array_interface__["data"][0]
        for first, last in shared:
            if first <= start < last:
                size = min(last, start + array.nbytes) - first
                system.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def is_changed(array: Array) -> bool:
    """Whether pages of a private map were written to, so that they differ from the file."""
    address, is_here = array.__array_interface__["data"][0], False
    with open("/proc/self/smaps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            first, *rest = line.split()
            if "-" in first and not first.endswith(":"):  # the ends of a range of addresses
                start, end = (int(text, 16) for text in first.split("-"))
                is_here = start < address + array.nbytes and address < end
            elif is_here and first == "Anonymous:" and rest[0] != "0":
                return True
    return False


class Watch:
    """Notices if a mapped file is cut short, which would otherwise end the process by a signal.

    A file that is cut between a check and the next read is not noticed.
    """

    def __init__(self, arrays: Iterable[Array]) -> None:
        self.files = [file for file in files_of(arrays) if file is not None]

    def check(self) -> None:
        """Raise an error if a file is shorter than it was."""
        for file in self.files:
            file.check()


class RowReader:
    """Rows of a mapped matrix, read from its file, with a cache of the rows that are drawn most.

    `matrix` [V, F] is mapped from `file`, in C order. `cache` is the number of bytes for cached
    rows and their ids. With `is_cold`, rows are announced to the system before they are read, which
    is useless if they were written or read shortly before.
    """

    def __init__(
        self, file: MappedFile, matrix: Array, cache: int = 0, is_cold: bool = True
    ) -> None:
        self.file, self.kind, self.shape = file, matrix.dtype, matrix.shape
        self.width = matrix.shape[1] * matrix.itemsize  # bytes of a row
        self.capacity = min(cache // (self.width + 16), matrix.shape[0])
        self._cached = np.empty((self.capacity, matrix.shape[1]), self.kind)
        self._ids: IntArray = np.empty(0, np.int64)  # sorted
        self._slots: IntArray = np.empty(0, np.int64)  # row of `_cached` for each id
        self._handle = os.open(file.path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)
        os.posix_fadvise(self._handle, 0, 0, os.POSIX_FADV_RANDOM)
        self._is_cold = is_cold
        self._lock = threading.Lock()
        self.hits, self.reads = 0, 0  # rows from the cache, and from the file

    def __deepcopy__(self, memo: Any) -> RowReader:
        return self  # rows do not depend on the cache

    @classmethod
    def of(cls, matrix: Any, cache: int = 0) -> RowReader | None:
        """Reader of a matrix that is mapped from a large file, or has a cache; None for others."""
        if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or sys.platform != "linux":
            return None
        if not matrix.flags.c_contiguous or not (cache or matrix.nbytes > memory_limit() // 2):
            return None
        (file,) = files_of([matrix])
        return None if file is None or is_changed(matrix) else cls(file, matrix, cache)

    def __call__(self, ids: IntArray) -> Array:
        """The rows of some ids. int64[N] -> [N, F]."""
        out = np.empty((ids.size, self.shape[1]), self.kind)
        with self._lock:
            place = np.arange(ids.size)
            if self._ids.size:
                nearest = np.minimum(np.searchsorted(self._ids, ids), self._ids.size - 1)
                is_hit = self._ids[nearest] == ids
                out[is_hit] = self._cached[self._slots[nearest[is_hit]]]
                place = np.flatnonzero(~is_hit)
            self.hits += ids.size - place.size
            self._read(ids[place], place, out)
        return out

    def renew(self, score: FloatArray) -> None:
        """Cache the rows of highest score [V]; those that are cached already are not read again."""
        if not self.capacity:
            return
        best = np.argpartition(score, score.size - self.capacity)[-self.capacity :]
        wanted = np.sort(best)
        with self._lock:
            stays = np.isin(self._ids, wanted, assume_unique=True)
            new = np.setdiff1d(wanted, self._ids[stays], assume_unique=True)
            free = np.setdiff1d(np.arange(self.capacity), self._slots[stays], assume_unique=True)
            ids = np.concatenate([self._ids[stays], new])
            slots = np.concatenate([self._slots[stays], free[: new.size]])
            self._ids = self._slots = np.empty(0, np.int64)  # empty if a read fails
            self._read(new, free[: new.size], self._cached)
            order = np.argsort(ids)
            self._ids, self._slots = ids[order], slots[order]

    def _read(self, ids: IntArray, slot: IntArray, out: Array) -> None:
        from bliss.kernels.row_reading import read_rows

        order = np.argsort(ids)
        row, to = ids[order].astype(np.int64), slot[order].astype(np.int64)
        flat = out.reshape(-1).view(np.uint8)
        place = self.file.offset, self.width
        done = read_rows(self._handle, *place, row, to, flat, self._is_cold)
        self.reads += done
        if done < row.size:
            self.file.check()
            raise DamagedError(
                f"{self.file.path} cannot be read at row {row[done]}: check the disk, then run "
                "the same command with --resume."
            )
