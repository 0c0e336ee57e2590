"""Arrays that are computed once and kept in files, so that another run uses them again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bliss.arrays import Array
from bliss.storage.digests import file_digest
from bliss.storage.files import replace_file, replacing
from bliss.storage.mapped import new_npy


def cached_npy(
    path: Path,
    shape: tuple[int, ...],
    dtype: npt.DTypeLike,
    fill: Callable[[Array], None],
    what: str,
) -> Array:
    """The array in the .npy file `path`, memory-mapped; `fill` writes it if there is none.

    A second file holds a digest of its content, which shows whether it is complete. `what` names
    the content in a warning.
    """
    if not _is_whole(path, shape, what):
        with replacing(path) as scratch:
            array = new_npy(scratch, shape, dtype)
            fill(array)
            array.flush()  # type: ignore[attr-defined]
            seal = json.dumps({"digest": file_digest(scratch)})
        replace_file(_seal(path), seal.encode())
    mapped: Array = np.load(path, mmap_mode="r")
    return mapped


def _seal(path: Path) -> Path:
    """The file beside `path` that holds its digest."""
    return path.with_suffix(".json")


def _is_whole(path: Path, shape: tuple[int, ...], what: str) -> bool:
    """Whether the file has the shape and the digest with which it was written."""
    if not path.is_file():
        return False
    try:
        seal = json.loads(_seal(path).read_bytes())["digest"]
        if np.load(path, mmap_mode="r").shape == shape and file_digest(path) == seal:
            return True
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        pass
    warnings.warn(
        f"{path} is damaged or incomplete: the {what} are computed again.",
        stacklevel=6,
    )
    return False
