"""Agreement of the processes of a run on integers, signals, errors and results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from bliss.arrays import Bytes
from bliss.distributed.groups import ALONE, Group, as_bytes
from bliss.distributed.signals import Signals, catch_signals
from bliss.errors import (
    DamagedError,
    DivergedError,
    InputError,
    Interrupted,
    LostError,
    ResourceError,
    TruncatedError,
)

GRACE = 2.0
"""Seconds within which several processes take repeated signals for one."""
_RUNNING, _DONE, _FAILED = range(3)  # status of a process in an all_gather
_NUMBERS = 4  # integers of a message, after status and signal
_ERRORS = {
    kind.__name__: kind
    for kind in (InputError, DivergedError, DamagedError, TruncatedError, ResourceError)
}

T = TypeVar("T")


class Communicator:
    """Agreement of a group of processes.

    Every exchange of a run begins with an all_gather of a few integers. A process also sends its
    status and the number of a signal that it has received in it. So if one process fails, the
    others do not wait for it: they raise the same error. And all of them know of a signal after the
    same all_gather.
    """

    def __init__(self, group: Group = ALONE) -> None:
        self.group = group
        self._signals = Signals()  # that this process has received
        self._agreed = 0

    @property
    def is_root(self) -> bool:
        """Whether this process writes and prints: rank 0."""
        return self.group.rank == 0

    @property
    def signal(self) -> int:
        """Largest signal number that any process had received at the last all_gather; 0: none.

        A single process needs no all_gather to know.
        """
        return self._signals.number if self.group.size == 1 else self._agreed

    def all_gather(self, *numbers: int) -> list[list[int]]:
        """Integers of all processes, by rank; raises the error of a process that failed.

        numbers  at most four
        """
        return [row for _, row in self._gather(_RUNNING, *numbers)]

    def all_true(self, flag: bool) -> bool:
        """Whether the flag is true in all processes."""
        return all(value for (value,) in self.all_gather(int(flag)))

    def barrier(self) -> None:
        """Wait for all processes; raises the error of a process that failed."""
        self.all_gather()

    def broadcast(
        self, compute: Callable[[], T], pack: Callable[[T], Bytes], unpack: Callable[[Bytes], T]
    ) -> T:
        """What `compute` returns on rank 0, in all processes.

        Other processes wait meanwhile. If `compute` takes long, it calls `check_signals` about
        every second, which they answer. In a single process nothing is packed.

        `pack` and `unpack` convert the result to bytes and back.
        """
        if self.is_root:
            result = compute()
            if self.group.size > 1:
                self._gather(_DONE)
                self.group.broadcast_bytes(pack(result))
            return result
        while self._gather(_RUNNING)[0][0] != _DONE:
            pass
        return unpack(self.group.broadcast_bytes(as_bytes("")))

    def check_signals(self, _share: float = 0.0) -> None:
        """Raise `Interrupted` if any process has received a signal."""
        self.barrier()
        if self.signal:
            raise Interrupted(self.signal)

    @contextmanager
    def sharing_signals(self) -> Iterator[None]:
        """Context manager that handles SIGINT and SIGTERM, which all processes then agree on."""
        with catch_signals(GRACE if self.group.size > 1 else 0.0) as self._signals:
            self._agreed = 0
            yield

    @contextmanager
    def sharing_errors(self) -> Iterator[None]:
        """Context manager that sends an error to the others, which raise it, too."""
        try:
            yield
        except Exception as error:
            self._send(error)
            raise

    def _gather(self, status: int, *numbers: int) -> list[tuple[int, list[int]]]:
        """Status and integers of all processes, by rank; raises the error of one that failed."""
        rows = self._exchange(status, *numbers)
        if any(row[0] == _FAILED for row in rows):
            self._raise(self.group.all_gather_bytes(as_bytes("")))
        return [(row[0], row[2 : 2 + len(numbers)]) for row in rows]

    def _exchange(self, status: int, *numbers: int) -> list[list[int]]:
        """Messages of all processes: status, signal and padded integers."""
        padding = (0,) * (_NUMBERS - len(numbers))
        own = torch.tensor([status, self._signals.number, *numbers, *padding])
        rows: list[list[int]] = [row.tolist() for row in self.group.all_gather(own)]
        self._agreed = max(row[1] for row in rows)
        return rows

    def _send(self, error: Exception) -> None:
        """Send an error in the all_gather in which the other processes are or will be."""
        if self.group.size == 1 or isinstance(error, LostError) or hasattr(error, "is_everywhere"):
            return
        everywhere(error)
        self._exchange(_FAILED)
        description = {
            "kinds": [kind.__name__ for kind in type(error).__mro__],
            "text": str(error),
            "number": getattr(error, "number", 0),
        }
        self.group.all_gather_bytes(as_bytes(json.dumps(description)))

    def _raise(self, descriptions: list[Bytes]) -> None:
        """Raise the error of the first process that failed."""
        rank = next(rank for rank, content in enumerate(descriptions) if content.size)
        values: dict[str, Any] = json.loads(descriptions[rank].tobytes())
        kinds, text = values["kinds"], values["text"]
        if Interrupted.__name__ in kinds:
            raise everywhere(Interrupted(int(values["number"])))
        for name in kinds:  # the nearest base class that is known
            if name in _ERRORS:
                raise everywhere(_ERRORS[name](text))
        raise everywhere(RuntimeError(f"{kinds[0]} on rank {rank}: {text}"))


def everywhere(error: Exception) -> Exception:
    """The error, marked as one that all processes raise, so that none sends it."""
    error.is_everywhere = True  # type: ignore[attr-defined]
    return error
