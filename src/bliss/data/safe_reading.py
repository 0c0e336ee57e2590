"""The border between files of unknown origin and the library.

Whatever a reader of another library raises becomes one sentence with the file and the remedy.
Devices and pipes, which never end, are not opened. What a file declares is compared with a limit
before memory is allocated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.storage.files import check_regular

UNPACK_VARIABLE = "BLISS_UNPACK_GIB"
"""Environment variable with the number of GiB that a compressed file may unpack to."""
_UNPACK_GIB = 1.0
_UNPACK_RATIO = 32  # a file may also unpack to 32 times its size; index arrays reach about 5


@contextmanager
def reading(file: Path, form: str, remedy: str, field: str = "") -> Iterator[None]:
    """Check that `file` is a regular file, and turn what a reader raises into one sentence.

    The sentence says that the file "cannot be read as `form`", and the remedy. `field` is the name
    of the argument that held the path, if there is one.
    """
    shown = f"{field}={str(file)!r}" if field else str(file)
    check_regular(file, shown)
    with in_one_sentence(shown, form, remedy):
        yield


@contextmanager
def in_one_sentence(shown: str, form: str, remedy: str) -> Iterator[None]:
    """Turn what a reader raises into one sentence about `shown`, such as "edges='a.csv'"."""
    try:
        yield
    except (InputError, DamagedError, ResourceError):
        raise
    except MemoryError as error:
        raise ResourceError(
            f"{shown} needs more memory than there is ({first_line(error)}): use a machine with "
            "more memory, or a smaller file."
        ) from error
    except Exception as error:  # a damaged file can raise almost anything
        raise InputError(
            f"{shown} cannot be read as {form} ({first_line(error)}): {remedy}."
        ) from error


def first_line(error: Exception) -> str:
    """First line of an error message, to be quoted inside a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".:")[:200]


def unpack_limit(file: Path) -> int:
    """Number of bytes that `file` may unpack to: 1 GiB or 32 times its size, whichever is larger.

    The environment variable BLISS_UNPACK_GIB replaces the 1.
    """
    text = os.environ.get(UNPACK_VARIABLE, "")
    try:
        gib = float(text) if text else _UNPACK_GIB
    except ValueError:
        gib = math.nan
    if not 0 < gib < 2**33:
        raise InputError(
            f"{UNPACK_VARIABLE}={text!r} must be a number above 0: write for instance "
            f"{UNPACK_VARIABLE}=4."
        )
    return max(int(gib * 2**30), _UNPACK_RATIO * file.stat().st_size)


def check_unpacked(file: Path, declared: int, what: str = "unpacks to") -> None:
    """Raise if `file` declares more bytes than `unpack_limit` allows."""
    limit = unpack_limit(file)
    if declared > limit:
        raise InputError(
            f"{file} has {file.stat().st_size:,} bytes, but {what} {declared:,}, more than the "
            f"limit of {limit:,}: if you trust it, set the environment variable "
            f"{UNPACK_VARIABLE}={math.ceil(declared / 2**30)}."
        )


class LimitedStream:
    """A binary stream that raises once it has given more bytes than its file may unpack to."""

    def __init__(self, stream: Any, file: Path) -> None:
        self.stream, self.file, self.given = stream, file, 0

    def read(self, size: int = 1 << 20) -> bytes:
        """The next bytes, at most `size`."""
        content: bytes = self.stream.read(size)
        self.given += len(content)
        check_unpacked(self.file, self.given, "unpacks to at least")
        return content

    def __iter__(self) -> Iterator[bytes]:
        """All bytes up to the end, in parts."""
        return iter(self.read, b"")
