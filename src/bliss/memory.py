"""Where learnt arrays are: in this process, or in memory that the processes of a machine share."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from bliss.arrays import Array

_SIZE = 2**44
"""Bytes of a shared file. It has holes: only what is written takes memory."""


class SharedMemory:
    """A file in memory, without a name, that several processes of a machine map.

    The process that creates it passes `address` to the others, which open it. All of them make the
    same allocations in the same order, and so get the same arrays. The file vanishes with the last
    process, however that ends.

    `create` and `open` raise an `OSError` if the system does not allow it.
    """

    def __init__(self, descriptor: int, is_owner: bool) -> None:
        self.is_owner = is_owner
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)  # maps outlive it
        self._end = 0
        self._ranges: list[tuple[int, int]] = []  # addresses of mapped arrays

    @classmethod
    def create(cls) -> SharedMemory:
        """New memory of this process."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no files in memory")
        descriptor = os.memfd_create("bliss")
        os.truncate(descriptor, _SIZE)
        return cls(descriptor, is_owner=True)

    @classmethod
    def open(cls, address: str) -> SharedMemory:
        """The memory that another process of this machine has created."""
        return cls(os.open(address, os.O_RDWR | os.O_CLOEXEC), is_owner=False)

    @property
    def address(self) -> str:
        """Path by which other processes open the memory while this one runs."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def claim(self, size: int) -> int:
        """Offset of `size` new bytes, which are zero. The same call in all processes."""
        start, page = self._end, mmap.ALLOCATIONGRANULARITY
        self._end += -(-size // page) * page
        return start

    def map(self, offset: int, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """The array at an offset, shared with the other processes."""
        kind, count = np.dtype(dtype), int(np.prod(shape))
        if count == 0:
            return np.zeros(shape, kind)
        content = mmap.mmap(self._descriptor, count * kind.itemsize, offset=offset)
        found: Array = np.frombuffer(content, kind).reshape(shape)
        start = _address(found)
        self._ranges.append((start, start + found.nbytes))
        return found

    def holds(self, arrays: Iterable[Array]) -> bool:
        """Whether all of these arrays are in this memory; those without elements are anywhere."""
        return all(
            one.nbytes == 0 or any(start <= _address(one) < end for start, end in self._ranges)
            for one in arrays
        )


class Later:
    """An array of zeros that is allocated when it is first asked for, by calling this object.

    Parameters
    ----------
    shape, dtype
        Those of the array. It is in the memory that is current now, see `placed_in`.
    """

    def __init__(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._memory = _current.get()
        self._array: Array | None = None
        if self._memory is not None:
            size = int(np.prod(shape)) * self._dtype.itemsize
            self._offset = self._memory.claim(size)

    def __call__(self) -> Array:
        """The array."""
        if self._array is None:
            if self._memory is None:
                self._array = np.zeros(self._shape, self._dtype)
            else:
                self._array = self._memory.map(self._offset, self._shape, self._dtype)
        return self._array


def zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Array:
    """A new array of zeros in the current memory, see `placed_in`."""
    return Later(shape, dtype)()


def full(shape: int | tuple[int, ...], value: Any, dtype: npt.DTypeLike = np.float64) -> Array:
    """A new array in the current memory that holds `value` everywhere."""
    found = zeros(shape, dtype)
    found[...] = value
    return found


@contextmanager
def placed_in(memory: SharedMemory | None) -> Iterator[None]:
    """Context manager in which this module allocates in `memory`; None: in this process."""
    token = _current.set(memory)
    try:
        yield
    finally:
        _current.reset(token)


_current: ContextVar[SharedMemory | None] = ContextVar("memory", default=None)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
