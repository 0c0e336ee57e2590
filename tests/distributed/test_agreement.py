"""Processes agree on integers, results, errors and signals; here they are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from bliss import errors
from bliss.distributed.agreement import Communicator, everywhere
from bliss.distributed.groups import as_bytes
from bliss.errors import DamagedError, Interrupted, LostError

TERM = 15
NOT_SENT = (Interrupted, LostError)  # one has no text; the other means that nobody answers


class Hub:
    """What the threads of a group exchange."""

    def __init__(self, size: int) -> None:
        self.barrier, self.values = threading.Barrier(size, timeout=10), [None] * size


class ThreadGroup:
    """A group whose processes are threads."""

    def __init__(self, hub: Hub, rank: int) -> None:
        self.hub, self.rank, self.size = hub, rank, len(hub.values)

    def _exchange(self, value: Any) -> list[Any]:
        self.hub.values[self.rank] = value
        self.hub.barrier.wait()
        values = list(self.hub.values)
        self.hub.barrier.wait()
        return values

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return self._exchange(tensor)

    def all_gather_bytes(self, content: np.ndarray, sizes=()) -> list[np.ndarray]:
        return self._exchange(content)

    def broadcast_bytes(self, content: np.ndarray) -> np.ndarray:
        return self._exchange(content)[0]


def together(size: int, work: Callable[[Communicator], Any]) -> list[Any]:
    """What `work` returns, or the error that it raises, by rank."""
    hub = Hub(size)

    def member(rank: int) -> Any:
        communicator = Communicator(ThreadGroup(hub, rank))
        try:
            with communicator.sharing_errors():
                return work(communicator)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(member, range(size)))


def pack(value: Any) -> np.ndarray:
    return as_bytes(str(value))


def unpack(content: np.ndarray) -> str:
    return content.tobytes().decode()


def test_integers_are_gathered_by_rank_and_flags_agreed_on():
    def work(communicator):
        rank = communicator.group.rank
        return communicator.all_gather(rank, -rank), communicator.all_true(rank != 1)

    rows = [[0, 0], [1, -1], [2, -2]]
    assert together(3, work) == [(rows, False)] * 3
    assert together(1, work) == [([[0, 0]], True)]


def test_rank_0_computes_and_the_others_get_its_result_through_bytes():
    calls = []

    def work(communicator):
        def compute() -> int:
            calls.append(communicator.group.rank)
            for _ in range(3):
                communicator.check_signals()
            return 42

        return communicator.broadcast(compute, pack, unpack)

    assert together(3, work) == [42, "42", "42"]
    assert calls == [0]


def test_a_single_process_packs_nothing():
    def refuse(value: Any) -> Any:
        raise AssertionError("there is nobody to send it to")

    result = object()
    assert Communicator().broadcast(lambda: result, refuse, refuse) is result


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_one_process_is_raised_in_all(failing):
    def work(communicator):
        if communicator.group.rank == failing == 1:
            raise DamagedError("it broke: mend it.")

        def compute() -> int:
            if failing == 0:
                raise DamagedError("it broke: mend it.")
            communicator.check_signals()
            return 42

        return communicator.broadcast(compute, pack, unpack)

    assert together(2, work) == ["DamagedError: it broke: mend it."] * 2


OWN = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and kind not in NOT_SENT
]


@pytest.mark.parametrize("is_derived", [False, True])
@pytest.mark.parametrize("kind", OWN)
def test_an_error_has_the_same_kind_in_all_processes(kind, is_derived):
    raised = type("Special", (kind,), {}) if is_derived else kind

    def work(communicator):
        if communicator.group.rank == 1:
            raise raised("it broke: mend it.")
        communicator.barrier()

    found = together(2, work)
    assert found == [f"{one.__name__}: it broke: mend it." for one in (kind, raised)]


def test_of_several_errors_the_others_raise_that_of_the_lowest_rank():
    def work(communicator):
        if rank := communicator.group.rank:
            raise DamagedError(f"file {rank} broke: mend it.")
        communicator.barrier()

    found = [f"DamagedError: file {rank} broke: mend it." for rank in (1, 1, 2)]
    assert together(3, work) == found


def test_an_error_that_all_raise_is_not_sent():
    def work(communicator):
        raise everywhere(Interrupted(TERM))

    assert together(2, work) == ["Interrupted: interrupted by signal 15"] * 2


def test_an_error_of_an_unknown_kind_names_its_rank():
    def work(communicator):
        if communicator.group.rank == 1:
            raise KeyError("name")
        communicator.barrier()

    assert together(2, work) == ["RuntimeError: KeyError on rank 1: 'name'", "KeyError: 'name'"]


def test_all_processes_know_of_a_signal_after_the_next_all_gather():
    def work(communicator):
        if communicator.group.rank == 1:
            communicator._signals.receive(TERM, None)
        before = communicator.signal
        communicator.barrier()
        return before, communicator.signal

    assert together(3, work) == [(0, TERM)] * 3


def test_a_signal_stops_what_rank_0_computes():
    def work(communicator):
        if communicator.group.rank == 1:
            communicator._signals.receive(TERM, None)
        return communicator.broadcast(communicator.check_signals, pack, unpack)

    assert together(2, work) == ["Interrupted: interrupted by signal 15"] * 2


def test_a_single_process_knows_of_its_signal_at_once():
    communicator = Communicator()
    communicator.check_signals()
    communicator._signals.receive(TERM, None)
    assert communicator.signal == TERM
    with pytest.raises(Interrupted):
        communicator.check_signals()
