"""Where learnt arrays are: in this process, or in memory that the processes of a machine share."""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from bliss.arrays import Array
from bliss.storage.limits import allocating

_SIZE = 2**44
"""Bytes of a shared file. It is sparse: only pages that are written take memory."""


class SharedMemory:
    """A file without a name, in memory (Linux's memfd), that several processes of a machine map.

    The process that creates it passes `address` to the others, which open it. All of them must make
    the same allocations in the same order; then each gets the same arrays. The memory is freed when
    the last process exits, even if it is killed.

    `create` and `open` raise an `OSError` if the system does not allow it.
    """

    def __init__(self, descriptor: int, is_owner: bool) -> None:
        self.is_owner = is_owner
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)  # maps outlive it
        self._end = 0
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    @classmethod
    def create(cls) -> SharedMemory:
        """Create memory that this process owns."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no memfd_create")
        memory = cls(os.memfd_create("bliss"), is_owner=True)
        os.truncate(memory._descriptor, _SIZE)
        return memory

    @classmethod
    def open(cls, address: str) -> SharedMemory:
        """The memory that another process of this machine has created."""
        return cls(os.open(address, os.O_RDWR | os.O_CLOEXEC), is_owner=False)

    @property
    def address(self) -> str:
        """Path by which other processes open the memory while this one runs."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def claim(self, size: int) -> int:
        """Offset of `size` new bytes. All processes must make the same calls."""
        start, page = self._end, mmap.ALLOCATIONGRANULARITY
        end = start - (-size // page) * page
        if end > _SIZE:
            raise MemoryError(f"{end:,} bytes are more than shared memory has room for")
        self._end = end
        return start

    def map(self, offset: int, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """The array at an offset, shared with the other processes."""
        kind, count = np.dtype(dtype), _count(shape)
        if count == 0:
            return np.zeros(shape, kind)
        content = mmap.mmap(self._descriptor, count * kind.itemsize, offset=offset)
        self._maps.add(content)
        return np.frombuffer(content, kind).reshape(shape)

    def holds(self, arrays: Iterable[Array]) -> bool:
        """Whether all of these arrays are in this memory; empty arrays count as held."""
        return all(array.nbytes == 0 or _map_of(array) in self._maps for array in arrays)


class LazyZeros:
    """An array of zeros that is allocated when it is first asked for, by calling this object.

    It is in the memory that is current when this object is made, see `placed_in`.
    """

    def __init__(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._memory = _current.get()
        self._array: Array | None = None
        if self._memory is not None:
            with self._allocating():
                self._offset = self._memory.claim(_count(shape) * self._dtype.itemsize)

    def __call__(self) -> Array:
        """The array."""
        if self._array is None:
            with self._allocating():
                if self._memory is None:
                    self._array = np.zeros(self._shape, self._dtype)
                else:
                    self._array = self._memory.map(self._offset, self._shape, self._dtype)
        return self._array

    def _allocating(self) -> AbstractContextManager[None]:
        size = _count(self._shape) * self._dtype.itemsize
        shown = f"an array of shape {self._shape}, {size:,} bytes"
        return allocating(shown, "use narrower layers, or fewer of them")


def zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Array:
    """A new array of zeros in the current memory, see `placed_in`.

    In shared memory another process may have written its initial values already, so give initial
    values by assignment (`full`), not by adding to the zeros.
    """
    return LazyZeros(shape, dtype)()


def full(shape: int | tuple[int, ...], value: Any, dtype: npt.DTypeLike = np.float64) -> Array:
    """A new array in the current memory that holds `value` everywhere."""
    array = zeros(shape, dtype)
    array[...] = value
    return array


@contextmanager
def placed_in(memory: SharedMemory | None) -> Iterator[None]:
    """Context manager in which this module allocates in `memory`; None: in this process."""
    token = _current.set(memory)
    try:
        yield
    finally:
        _current.reset(token)


def _count(shape: int | tuple[int, ...]) -> int:
    """Number of entries, of any size: NumPy's product would overflow."""
    return shape if isinstance(shape, int) else math.prod(shape)


_current: ContextVar[SharedMemory | None] = ContextVar("memory", default=None)


def _map_of(array: Array) -> mmap.mmap | None:
    """The map whose memory an array uses, if there is one."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    owner = owner.obj if isinstance(owner, memoryview) else owner
    return owner if isinstance(owner, mmap.mmap) else None
