"""Reading rows of a file without holding the GIL. Linux only: it calls the system's C library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from bliss.arrays import Array, IntArray
from bliss.kernels.compile import compiled

_WILL_NEED = 3  # POSIX_FADV_WILLNEED

_advise: Any = types.ExternalFunction(
    "posix_fadvise", types.int32(types.int32, types.int64, types.int64, types.int32)
)
_pread: Any = types.ExternalFunction(
    "pread", types.int64(types.int32, types.uintp, types.uint64, types.int64)
)


@compiled
def read_rows(
    handle: int,
    offset: int,
    width: int,
    row: IntArray,
    place: IntArray,
    out: Array,
    is_cold: bool,
) -> int:
    """Read rows of `width` bytes from an open file into the given places of a buffer.

    If `is_cold`, all rows are announced to the system before the first is read, so that the disk
    works on many of them at once.

    offset   bytes before row 0
    row      int64[N]   ids, best in increasing order
    place    int64[N]   row of the buffer for each of them
    out      uint8[M]   the buffer, M a multiple of width
    returns  number of rows that were read; less than N if the file ends or cannot be read
    """
    for k in range(row.size if is_cold else 0):
        _advise(handle, offset + row[k] * width, width, _WILL_NEED)
    start = out.ctypes.data
    for k in range(row.size):
        done = 0
        while done < width:
            got = _pread(
                handle,
                np.uint64(start + place[k] * width + done),
                np.uint64(width - done),
                offset + row[k] * width + done,
            )
            if got <= 0:
                return k
            done += got
    return int(row.size)
