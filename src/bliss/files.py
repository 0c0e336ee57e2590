"""Files that appear whole: written beside, flushed, renamed."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bliss.errors import InputError, ResourceError


def refuse_folder(field: str, path: Path, example: str) -> None:
    """Refuse a folder where a file is asked for."""
    if path.is_dir():
        raise InputError(f"{field}={str(path)!r} is a folder: name a file, for instance {example}.")


def replace_file(path: Path, content: bytes) -> Path:
    """Write a file so that a kill leaves the old or the new one whole; makes its folder."""
    with replacing(path) as scratch:
        scratch.write_bytes(content)
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write instead of `path`; it takes its place at the end, or is gone on failure."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        scratch = Path(name)
        try:
            yield scratch
            with open(scratch, "rb+") as file:
                os.fsync(file.fileno())
            scratch.chmod(0o644)
            os.replace(scratch, path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Failures to write become one sentence with the remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "make room" if full else "choose a place that can be written to"
        raise ResourceError(
            f"{path} cannot be written ({error.strerror}): {remedy}, then go on."
        ) from error
