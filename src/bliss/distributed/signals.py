"""SIGINT and SIGTERM: the first stops the run after its current step, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType


class Signals:
    """The signal that this process has received, if any.

    A launcher of several processes sends a signal again that the terminal has sent to all of them.
    Repetitions within `grace` seconds count as one signal.
    """

    def __init__(self, grace: float = 0.0) -> None:
        self.number = 0  # none
        self._grace, self._received = grace, 0.0

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Store the first signal; a second one ends the process like an unhandled signal."""
        if self.number and monotonic() < self._received + self._grace:
            return
        if self.number:
            signal.signal(number, signal.SIG_DFL)
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            signal.raise_signal(number)
        self.number, self._received = number, monotonic()


@contextmanager
def catch_signals(grace: float = 0.0) -> Iterator[Signals]:
    """Context manager that handles SIGINT and SIGTERM; does nothing outside the main thread."""
    signals = Signals(grace)
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
