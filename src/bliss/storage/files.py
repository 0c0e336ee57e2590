"""Atomic file writes: scratch file, fsync, rename, fsync of the directory.

A killed process leaves the old file or the new one, never part of one. It may also leave a scratch
file called ``.NAME.*.bliss-scratch``, with random characters for the star, which `remove_scratch`
deletes, or a folder of such a name, which is deleted when the same path is written again.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bliss.errors import InputError, ResourceError

_SUFFIX = ".bliss-scratch"
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free disk space"),
    errno.EIO: "check the disk or the network drive",
    errno.ESTALE: "check the disk or the network drive",
    errno.ENOENT: "check that its folder was not removed or moved",
}
DISK_ERRORS = {*_REMEDIES, errno.EROFS} - {errno.ENOENT}
"""Numbers of errors that only a disk raises."""
_SCRATCH = re.compile(r"\..+\.[a-z0-9_]{8}" + re.escape(_SUFFIX))  # as `tempfile` draws names


def refuse_folder(field: str, path: Path, example: str) -> None:
    """Raise if `path` is a folder where a file is expected."""
    if path.is_dir():
        raise InputError(f"{field}={str(path)!r} is a folder: name a file, for instance {example}.")


def check_regular(path: Path, shown: str = "") -> None:
    """Raise unless `path` is a regular file; to open a pipe or to read a device may never end."""
    shown = shown or str(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        raise InputError(f"{shown} does not exist: check the path.") from error
    except (OSError, ValueError) as error:  # ValueError: a null character
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{shown} cannot be opened ({reason}): check the path.") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise InputError(f"{shown} is {kind}, but must be a regular file: check the path.")


def check_space(path: Path, needed: int) -> None:
    """Raise if the disk of the folder that is to hold `path` has fewer bytes free than needed."""
    place = next(parent for parent in path.absolute().parents if parent.is_dir())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise ResourceError(
            f"{path} needs {needed:,} bytes, but the disk has {free:,} free: free disk space or "
            "choose another place."
        )


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, and wait until they are on the disk."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for place in reversed(missing):
        sync(place.parent)


def replace_file(path: Path, content: bytes) -> Path:
    """Replace the content of a file, or create the file and its folder."""
    with replacing(path) as scratch:
        scratch.write_bytes(content)
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty scratch file that replaces `path` on success and is deleted on failure."""
    with writing(path):
        make_folder(path.parent)
        handle, name = tempfile.mkstemp(_SUFFIX, f".{path.name}.", path.parent)
        os.close(handle)
        scratch = Path(name)
        try:
            yield scratch
            scratch.chmod(_allowed(0o666))  # it was private so far
            publish(scratch, path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty scratch folder that becomes `path` on success and is deleted on failure."""
    if path.exists():
        raise InputError(f"{path} already exists: choose another name, or remove it first.")
    with writing(path), scratch_folder(path) as scratch:
        yield scratch
        scratch.chmod(_allowed(0o777))  # it was private so far
        publish(scratch, path)


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, and delete it at the end if it is still there.

    Such folders that killed processes left for the same path are deleted first. The folder is
    locked, so that other processes know that it is in use.
    """
    make_folder(path.parent)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_SUFFIX}"):
        if _SCRATCH.fullmatch(left.name) and left.is_dir() and not left.is_symlink():
            with _locked(left) as is_ours:
                if is_ours:
                    shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(_SUFFIX, f".{path.name}.", path.parent))
    try:
        with _locked(scratch):
            yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock a folder; yields whether no other process holds the lock, False if that is unknown."""
    if os.name != "posix":
        yield False
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = True
        except OSError:  # in use, or the file system has no locks
            is_ours = False
        yield is_ours
    finally:
        os.close(handle)


def publish(scratch: Path, path: Path) -> None:
    """Rename a written file or folder to `path`, once its content is on the disk."""
    for part in (scratch, *scratch.rglob("*")) if scratch.is_dir() else (scratch,):
        sync(part)
    os.replace(scratch, path)
    sync(path.parent)  # makes the rename durable


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `ResourceError` that names the file and the remedy."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "choose a place with write permission")
        raise ResourceError(
            f"{path} cannot be written ({error.strerror or error}): {remedy}, then try again."
        ) from error


def _allowed(mode: int) -> int:
    """Permissions without those that the umask withholds."""
    mask = os.umask(0o077)  # it can only be read by setting it; other threads stay on the safe side
    os.umask(mask)
    return mode & ~mask


def remove_scratch(folder: Path) -> None:
    """Delete the scratch files that killed processes left directly in `folder`.

    Call it only while no other process writes to the folder. Files of any other name, and folders,
    are kept.
    """
    for path in folder.iterdir():
        if _SCRATCH.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file or a directory is on the disk; only POSIX systems open directories."""
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
