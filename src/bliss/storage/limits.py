"""How much memory this process may use, and what to say if it is not enough."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bliss.errors import ResourceError

_MEMBERSHIP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def memory_limit() -> int:
    """Bytes of memory that this process may use: of the machine, or of its control groups."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _limit_files():
        try:
            limit = min(limit, int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):  # there is none, or it is "max"
            continue
    return limit


@contextmanager
def allocating(what: str, remedy: str) -> Iterator[None]:
    """Turn a lack of memory into one sentence that names `what` it is for, and the remedy."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise ResourceError(
            f"the machine does not have enough memory for {what}: {remedy}."
        ) from error


def is_out_of_memory(error: Exception) -> bool:
    """Whether NumPy or torch ran out of memory; on the CPU, torch raises a plain RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    signs = ("can't allocate memory", "Storage size calculation", "array is too big")
    return any(sign in str(error) for sign in signs)


def _limit_files() -> Iterator[Path]:
    """Files with the limits of this process's control groups and of the groups around them.

    A line of /proc/self/cgroup is "0::/path" (version 2) or "4:memory:/path" (version 1). A
    container may show its own group as the root, whatever the path, so the root is read, too.
    """
    try:
        lines = _MEMBERSHIP.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = _GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = _GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = Path(path.lstrip("/"))
        yield from (root / part / name for part in (group, *group.parents))
