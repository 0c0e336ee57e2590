"""Files that appear whole: written beside, flushed, renamed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from bliss.errors import InputError, ResourceError


def writable(path: Path) -> None:
    """Refuse a folder where a file is asked for."""
    if path.is_dir():
        raise InputError(f"out={str(path)!r} is a folder: name a file, for instance report.html.")


def replace(path: Path, content: bytes) -> Path:
    """Write a file so that a kill leaves the old or the new one whole."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(scratch, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "make room" if full else "choose a place that can be written to"
        raise ResourceError(f"{path} cannot be written ({error.strerror}): {remedy}.") from error
    return path
