"""The threads of the kernels: as many as torch was given and, where possible, torch's own.

Kernels release the GIL, so parts of one input can run in several threads. The parts are chosen such
that no sum is split: each number is computed by one thread, in the order of a single one. Results
therefore have the same bits for every number of threads.

Torch's threads belong to OpenMP. After an operation they spin for a while, waiting for the next,
and threads of our own would compete with them for the processors. So parts are given to the same
team (`GOMP_parallel`, which the OpenMP libraries of GCC, LLVM and Intel offer on Linux). Elsewhere,
and in a forked process, which OpenMP does not support, there is one lasting pool of Python threads.
It starts them when they are first needed: none at import, and none for one thread.

A part must be worth waking a thread. Work is counted in steps of about a nanosecond, and an input
of less than `LEAST` steps per part has fewer parts.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import numpy as np

from bliss.arrays import IntArray

LEAST = 100_000
"""Steps, of about a nanosecond, in the smallest part."""
PARTS = 4
"""Parts per thread. With several, an interrupted thread delays the others less."""

Range = tuple[int, int]


def _single_thread() -> int:
    return 1


_count: Callable[[], int] = _single_thread
_local = threading.local()
_PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_team: Any = None  # GOMP_parallel of torch's OpenMP library


def follow(count: Callable[[], int], library: str | os.PathLike[str] | None = None) -> None:
    """Use `count()` threads, called before each kernel.

    If `library` is the path of a loaded library that was linked with OpenMP, use OpenMP's team.
    """
    global _count, _team
    _count, _team = count, None
    if library is not None and os.name == "posix" and os.path.exists(library):
        _team = getattr(ctypes.CDLL(os.fspath(library)), "GOMP_parallel", None)
    if _team is not None:
        _team.argtypes = [_PART, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        _team.restype = None


def threads() -> int:
    """Number of threads that a kernel called from this thread may use, itself included."""
    return getattr(_local, "threads", 0) or max(1, _count())


@contextmanager
def limited(count: int) -> Iterator[None]:
    """Context manager: kernels called from this thread use `count` threads."""
    before = getattr(_local, "threads", 0)
    _local.threads = count
    try:
        yield
    finally:
        _local.threads = before


def number(work: int, per_thread: int = PARTS) -> int:
    """Number of parts for `work` steps; 1 if the work is too small or there is one thread."""
    count = threads()
    return 1 if count == 1 else max(1, min(count * per_thread, work // LEAST))


def ranges(size: int, work: int, multiple: int = 1, per_thread: int = PARTS) -> list[Range]:
    """Ranges of about equal length that cover [0, size), with ends at multiples of a number."""
    parts = number(work, per_thread)
    ends = [size * part // parts // multiple * multiple for part in range(parts)]
    return _not_empty([*ends, size]) or [(0, size)]


def shares(indptr: IntArray, steps: float) -> list[Range]:
    """Ranges of targets with about equally many edges, at `steps` steps each. indptr [D + 1]."""
    targets, edges = indptr.size - 1, int(indptr[-1])
    parts = number(int(steps * edges))
    if parts == 1:
        return [(0, targets)]
    bounds = [edges * part // parts for part in range(1, parts)]
    ends = np.searchsorted(indptr, bounds).tolist()
    return _not_empty([0, *ends, targets])


def _not_empty(ends: Iterable[int]) -> list[Range]:
    """Ranges between consecutive ends, without empty ones."""
    return [(start, stop) for start, stop in pairwise(ends) if start < stop]


def starts(pointer: IntArray, start: IntArray, stop: IntArray) -> IntArray:
    """First place of each group's edges in the frontier, and their number. int64[G + 1]."""
    edges = np.concatenate([[0], np.cumsum(stop - start)])  # before each range
    places: IntArray = edges[pointer]
    return places


def group_ranges(pointer: IntArray, start: IntArray, stop: IntArray, steps: float) -> list[Range]:
    """Ranges of groups of `Rows` with about equally many edges, at `steps` steps each."""
    return (
        [(0, pointer.size - 1)] if threads() == 1 else shares(starts(pointer, start, stop), steps)
    )


def run(task: Callable[..., Any], parts: Sequence[tuple[Any, ...]]) -> None:
    """Call task(*part) for each part, in the calling thread and those of the pool.

    Returns when all calls have ended, with the exception of one that failed, if any did. Tasks must
    not call `run`.
    """
    helpers = min(threads(), len(parts)) - 1
    if helpers < 1:
        for part in parts:
            task(*part)
        return
    job = _Job(task, parts)
    if _team is None:
        job.share(_pool, helpers)
    else:
        job.share_with_team(_team, threads())


class _Job:
    """Calls that several threads take in turn."""

    def __init__(self, task: Callable[..., Any], parts: Iterable[tuple[Any, ...]]) -> None:
        self._task, self._parts = task, iter(parts)  # `next` holds the GIL
        self._changed = threading.Condition()
        self._helpers = 0  # at work
        self._is_over = False
        self._error: BaseException | None = None

    def share(self, pool: _Pool, helpers: int) -> None:
        """Take calls until none is left, and wait for the helpers."""
        pool.ask(self, helpers)
        try:
            self._take()
        except BaseException as error:  # also an interrupt: arrays are in use until helpers end
            self._error = error
        with self._changed:
            self._is_over = True
            while self._helpers:
                self._changed.wait()
        if self._error is not None:
            raise self._error

    def share_with_team(self, team: Any, size: int) -> None:
        """Take calls in all threads of the calling thread's OpenMP team.

        A team of another size than torch's would be taken apart and built anew each time.
        """

        def take(_: Any) -> None:
            try:
                self._take()
            except BaseException as error:  # also an interrupt: it must not pass through OpenMP
                self._error = error

        team(_PART(take), None, size, 0)
        if self._error is not None:
            raise self._error

    def help(self) -> None:
        """Take calls, in a thread of the pool."""
        with self._changed:
            if self._is_over:
                return
            self._helpers += 1
        try:
            self._take()
        except BaseException as error:
            self._error = error
        with self._changed:
            self._helpers -= 1
            self._changed.notify()

    def _take(self) -> None:
        for part in self._parts:
            if self._error is not None:
                return
            self._task(*part)


class _Pool:
    """Threads that wait for jobs. They end with the process."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._size = 0

    def ask(self, job: _Job, helpers: int) -> None:
        """Ask threads to help, and start them if there are too few."""
        if self._size < helpers:
            with self._lock:
                for place in range(self._size, helpers):
                    name = f"bliss-kernel-{place}"
                    threading.Thread(target=self._work, name=name, daemon=True).start()
                self._size = max(self._size, helpers)
        for _ in range(helpers):
            self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get().help()


_pool = _Pool()


def _forget() -> None:
    """Start anew in a forked process, which has no thread but the one that forked."""
    global _pool, _team
    _pool, _team = _Pool(), None


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget)
