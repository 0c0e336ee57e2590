"""SIGINT and SIGTERM: the first stops the run after its current step, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """A signal ended the run; a checkpoint was written."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by signal {number}")
        self.number = number


class Signals:
    """The signal that was received, if any."""

    def __init__(self) -> None:
        self.number: int | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Store the first signal; a second one ends the process like an unhandled signal."""
        if self.number is not None:
            signal.signal(number, signal.SIG_DFL)
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            signal.raise_signal(number)
        self.number = number

    def check(self, _share: float = 0.0) -> None:
        """Raise `Interrupted` if a signal was received."""
        if self.number is not None:
            raise Interrupted(self.number)


@contextmanager
def catch_signals() -> Iterator[Signals]:
    """Context manager that handles SIGINT and SIGTERM; does nothing outside the main thread."""
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signals.receive) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
