"""A disk that loses what was not synced, and one whose operations fail."""

from __future__ import annotations

import builtins
import io
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Moment:
    """What a folder holds at one moment: in memory, and on the disk for certain.

    Files and folders are known by the number of their inode.
    """

    names: dict[int, dict[str, int]]  # entries of each folder
    contents: dict[int, bytes]  # of each file
    synced_names: dict[int, dict[str, int]]  # as of the last fsync of the folder
    synced_contents: dict[int, bytes]  # as of the last fsync of the file


class Recorder:
    """Records every fsync, rename and removal below `root`, with the state before and after it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.moments: list[Moment] = []
        self.names: dict[int, dict[str, int]] = {os.stat(root).st_ino: {}}
        self.contents: dict[int, bytes] = {}
        self._held: list[int] = []  # open handles: their inodes are not used again

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record until the end of the block."""
        fsync, replace, unlink = os.fsync, os.replace, os.unlink

        def synced(handle: int) -> None:
            self.mark()
            fsync(handle)
            self._keep(handle)
            self.mark()

        def replaced(source: Any, target: Any, **options: Any) -> None:
            self.mark()
            replace(source, target, **options)
            self.mark()

        def unlinked(path: Any, **options: Any) -> None:
            unlink(path, **options)
            self.mark()

        os.fsync, os.replace, os.unlink = synced, replaced, unlinked
        try:
            yield
        finally:
            os.fsync, os.replace, os.unlink = fsync, replace, unlink
            self.mark()
            for handle in self._held:
                os.close(handle)
            self._held = []

    def mark(self) -> None:
        """Record the present state."""
        names, contents = {}, {}
        for folder, _, files in os.walk(self.root):
            place = Path(folder)
            with suppress(FileNotFoundError):
                names[os.stat(place).st_ino] = listing(place)
            for file in files:
                with suppress(FileNotFoundError):
                    contents[os.stat(place / file).st_ino] = (place / file).read_bytes()
        self.moments.append(Moment(names, contents, dict(self.names), dict(self.contents)))

    def _keep(self, handle: int) -> None:
        status = os.fstat(handle)
        place = Path(os.readlink(f"/proc/self/fd/{handle}"))
        self._held.append(os.dup(handle))
        if stat.S_ISDIR(status.st_mode):
            self.names[status.st_ino] = listing(place)
        else:
            self.contents[status.st_ino] = place.read_bytes()


def listing(folder: Path) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}


def rebuild(moment: Moment, root: int, out: Path, random: np.random.Generator | None) -> None:
    """Write what a folder may hold after a power loss at a moment.

    Without `random`, nothing survives that was not synced. With it, each change that was not synced
    survives or not, by chance: entries one by one, and contents whole, in part or as zeros.
    """
    out.mkdir()
    now, then = moment.names.get(root, {}), moment.synced_names.get(root, {})
    for name in sorted({*now, *then}):
        choices = [then.get(name)] if random is None else [then.get(name), now.get(name)]
        inode = choices[int(random.integers(len(choices))) if random is not None else 0]
        if inode is None:
            continue
        if inode in moment.names or inode in moment.synced_names:
            rebuild(moment, inode, out / name, random)
            continue
        content = moment.synced_contents.get(inode)
        latest = moment.contents.get(inode, b"")
        if content is None or (random is not None and latest.startswith(content)):
            content = _torn(content or b"", latest, random)
        (out / name).write_bytes(content)


def _torn(content: bytes, latest: bytes, random: np.random.Generator | None) -> bytes:
    """What is left of a content that was not synced: at least the synced beginning."""
    if random is None:
        return content
    end = int(random.integers(len(content), len(latest) + 1))
    kind = int(random.integers(3))
    return (latest, latest[:end], latest[:end] + bytes(len(latest) - end))[kind]


class Trap:
    """Counts operations that write, and acts before the one of a given number."""

    def __init__(self, number: int, act: Callable[[], Any]) -> None:
        self.number, self.act = number, act
        self.count = 0

    def step(self) -> None:
        """Count an operation."""
        self.count += 1
        if self.count - 1 == self.number:
            self.act()

    @property
    def is_sprung(self) -> bool:
        """Whether the operation came."""
        return self.count > self.number


class Stream:
    """A file whose writes are counted; those of more than one byte are counted half-way, too."""

    def __init__(self, file: Any, trap: Trap) -> None:
        self._file, self._trap = file, trap

    def write(self, data: Any) -> int:
        self._trap.step()
        half = len(data) // 2
        self._file.write(data[:half])
        self._file.flush()
        self._trap.step()
        self._file.write(data[half:])
        return len(data)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def trapped(trap: Trap) -> Iterator[None]:
    """Let every operation that writes pass through the trap: open, write, fsync, rename, and so on.

    The modules' functions are replaced, so that it works for any user, root too.
    """
    opened = builtins.open

    def open_(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if not set(mode) & set("wax+") or isinstance(file, int):
            return opened(file, mode, *rest, **options)
        trap.step()
        return Stream(opened(file, mode, *rest, **options), trap)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            trap.step()
            return function(*arguments, **options)

        return call

    places: list[tuple[Any, str]] = [(builtins, "open"), (io, "open")]
    others = [(os, name) for name in ("fsync", "replace", "mkdir", "chmod", "unlink")]
    others += [(tempfile, "mkstemp"), (tempfile, "mkdtemp")]
    before = {(place, name): getattr(place, name) for place, name in (*places, *others)}
    try:
        for place, name in places:
            setattr(place, name, open_)
        for place, name in others:
            setattr(place, name, counted(before[place, name]))
        yield
    finally:
        for (place, name), function in before.items():
            setattr(place, name, function)


def failing(number: int) -> Callable[[], None]:
    """Raise an OSError with this number."""

    def act() -> None:
        raise OSError(number, os.strerror(number))

    return act
