"""Rounds of short messages, in which the processes of a run agree: signals, errors, results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from bliss.distributed.groups import Alone, Bytes, Group
from bliss.distributed.signals import Signals
from bliss.errors import (
    DamagedError,
    DivergedError,
    InputError,
    Interrupted,
    LostError,
    ResourceError,
)

ALONE = Alone()
WORKING, DONE, FAILED = 0, 1, 2
_NUMBERS = 4  # of a message, after state and notice
_KINDS = {kind.__name__: kind for kind in (InputError, DivergedError, DamagedError, ResourceError)}


class Rounds:
    """Rounds of a group: every process sends a few whole numbers and gets those of all.

    All exchanges of a run begin with such a round. A process that fails says so in its next one, so
    that the others do not wait for it: they raise the same error. `notice` is the largest signal
    number that any process has told in a round, or 0; it is the same in all processes.
    """

    def __init__(self, group: Group = ALONE) -> None:
        self.group = group
        self.notice = 0

    @property
    def leads(self) -> bool:
        """Whether this process writes and prints: rank 0."""
        return self.group.rank == 0

    def meet(self, *numbers: int, state: int = WORKING, notice: int = 0) -> list[list[int]]:
        """States and numbers of all processes, by rank; raises the error of one that failed."""
        found = self._exchange(numbers, state, notice)
        if any(row[0] == FAILED for row in found):
            self._raise(self.group.gather_bytes(as_bytes("")))
        return found

    def fail(self, error: Exception) -> None:
        """Tell the others, in the round in which they are or will be, that this process failed."""
        if self.group.size == 1 or isinstance(error, LostError) or hasattr(error, "is_told"):
            return
        mark_told(error)
        self._exchange((), FAILED, 0)
        told = {
            "kind": type(error).__name__,
            "text": str(error),
            "number": getattr(error, "number", 0),
        }
        self.group.gather_bytes(as_bytes(json.dumps(told)))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Context manager that tells the others of an error."""
        try:
            yield
        except Exception as error:
            self.fail(error)
            raise

    def lead(self, work: Callable[[Callable[[float], None]], Bytes], signals: Signals) -> Bytes:
        """Bytes that rank 0 makes while the others wait; they meet whenever `work` reports.

        `work` gets a function to call about every second. It raises `Interrupted` if any process
        has received a signal.
        """
        content = np.empty(0, np.uint8)
        if self.leads:

            def report(_share: float = 0.0) -> None:
                self.meet(notice=signals.number or 0)
                if self.notice:
                    raise Interrupted(self.notice)

            content = work(report if self.group.size > 1 else signals.check)
            self.meet(state=DONE, notice=signals.number or 0)
        else:
            while self.meet(notice=signals.number or 0)[0][0] != DONE:
                pass
        return self.group.broadcast_bytes(content)

    def _exchange(self, numbers: tuple[int, ...], state: int, notice: int) -> list[list[int]]:
        padding = (0,) * (_NUMBERS - len(numbers))
        rows = self.group.gather(torch.tensor([state, notice, *numbers, *padding]))
        found = [row.tolist() for row in rows]
        self.notice = max(self.notice, *(row[1] for row in found))
        return found

    def _raise(self, told: list[Bytes]) -> None:
        """Raise the error of the first process that failed."""
        rank = next(rank for rank, content in enumerate(told) if content.size)
        values: dict[str, Any] = json.loads(told[rank].tobytes())
        if values["kind"] == Interrupted.__name__:
            raise mark_told(Interrupted(int(values["number"])))
        kind, text = _KINDS.get(values["kind"]), values["text"]
        if kind is None:
            raise mark_told(RuntimeError(f"{values['kind']} on rank {rank}: {text}"))
        raise mark_told(kind(text))


def mark_told(error: Exception) -> Exception:
    """The error, marked as known to all processes."""
    error.is_told = True  # type: ignore[attr-defined]
    return error


def as_bytes(text: str) -> Bytes:
    """Text as bytes in UTF-8."""
    return np.frombuffer(text.encode(), np.uint8).copy()
