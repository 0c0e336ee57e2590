"""Memory that the processes of a machine share: a sampler's learnt state, and vectors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from bliss.distributed.agreement import Communicator
from bliss.distributed.groups import Group, all_gather_text, first_ranks
from bliss.storage.memory import SharedMemory, placed_in, zeros


class CommonMemory(NamedTuple):
    """Memory that the processes of a machine share."""

    memory: SharedMemory  # owned by the first of them
    is_single_machine: bool  # whether all processes of the run are on this machine


def open_common_memory(communicator: Communicator) -> CommonMemory | None:
    """Memory that the processes of each machine share.

    None, in all processes, if there is one process, if every process has a machine of its own, or
    if a system does not allow it.
    """
    group = communicator.group
    if group.size == 1:
        return None
    communicator.barrier()  # raises an error if another process has failed
    owners = first_ranks(group)
    if len(set(owners)) == group.size:
        return None
    owner = owners[group.rank]
    memory: SharedMemory | None = None
    with suppress(OSError):
        if owner == group.rank:
            memory = SharedMemory.create()
    address = all_gather_text(group, memory.address if memory else "")[owner]
    with suppress(OSError):
        if memory is None and address:
            memory = SharedMemory.open(address)
    is_open = communicator.all_true(memory is not None)
    if memory is None or not is_open:
        return None
    return CommonMemory(memory, is_single_machine=len(set(owners)) == 1)


class SharedLearning(Protocol):
    """What a sampler learns with, as far as its state may be shared."""

    @property
    def learns(self) -> bool:
        """Whether feedback changes the state."""

    def is_shareable(self, memory: SharedMemory) -> bool:
        """Whether all that changes when this sampler learns is in arrays of `memory`."""

    def change_by(self, take_turn: Callable[[Callable[[], None]], None]) -> None:
        """Let `take_turn` decide when, and in which process, a change of the state is made."""


class Shareable(Protocol):
    """A sampler."""

    @property
    def learning(self) -> SharedLearning:
        """What it learns with."""


Built = TypeVar("Built", bound=Shareable)


def build_shared(
    build: Callable[[], Built], communicator: Communicator, draws_ahead: bool
) -> Built:
    """A sampler whose state the processes of a machine share, if they have common memory.

    Every process draws from the state and passes its changes to the sampler, in the same order, but
    only the owner of the memory makes them. A barrier follows each change. With `draws_ahead`, that
    is, if a thread prefetches batches, there is a barrier before it, too; otherwise each process
    has ended its draws before the exchange of updates, which comes before the change.

    Nothing is shared if the sampler does not learn or is not shareable (`Learning.is_shareable`),
    for instance because its histories are in files; in the latter case it is built again without
    shared memory.
    """
    common = open_common_memory(communicator)
    with placed_in(common.memory if common else None):
        sampler = build()
    if common is None or not sampler.learning.learns:
        return sampler
    if not communicator.all_true(sampler.learning.is_shareable(common.memory)):
        del sampler, common
        return build()
    is_owner = common.memory.is_owner

    def take_turn(change: Callable[[], None]) -> None:
        if draws_ahead:
            communicator.barrier()  # no process draws
        if is_owner:
            change()
        communicator.barrier()  # the change is made

    sampler.learning.change_by(take_turn)
    return sampler


class DoubleBuffer:
    """Vectors of all processes, gathered through the memory of their machine.

    Each process writes its own vectors and reads those of all after a barrier. There are two
    buffers, used in turn, because a fast process writes its next vectors while a slow one still
    reads.

    All processes are on this machine. `shape` is that of the vectors of a process, float32.
    """

    def __init__(self, common: CommonMemory, group: Group, shape: tuple[int, ...]) -> None:
        self._rank = group.rank
        with placed_in(common.memory):
            arrays = [zeros((group.size, *shape), "float32") for _ in range(2)]
        self._buffers = [torch.from_numpy(array) for array in arrays]  # [R, *shape]
        self._current = 0

    def write(self, own: Tensor) -> None:
        """Write the vectors of this process."""
        self._current = 1 - self._current
        self._buffers[self._current][self._rank] = own

    def read(self) -> list[Tensor]:
        """Vectors of all processes by rank, once a barrier has followed their writing."""
        return list(self._buffers[self._current].unbind())
