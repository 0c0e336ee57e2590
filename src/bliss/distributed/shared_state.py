"""What the processes of a machine share: one copy of a sampler's learnt state, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from bliss.distributed.groups import first_ranks, gather_text
from bliss.distributed.rounds import Rounds
from bliss.storage.memory import SharedMemory, placed_in, zeros


class Common(NamedTuple):
    """Memory that the processes of a machine share."""

    memory: SharedMemory  # owned by the first of them
    is_single_machine: bool  # whether all processes of the run are on this machine


def common_memory(rounds: Rounds) -> Common | None:
    """Memory that the processes of each machine share.

    None, in all processes, if there is one process, if every process has a machine of its own, or
    if a system does not allow it.
    """
    group = rounds.group
    if group.size == 1:
        return None
    rounds.meet()  # raises an error if another process has failed
    first = first_ranks(group)
    if len(set(first)) == group.size:
        return None
    memory: SharedMemory | None = None
    with suppress(OSError):
        if first[group.rank] == group.rank:
            memory = SharedMemory.create()
    told = gather_text(group, memory.address if memory else "")
    with suppress(OSError):
        if memory is None and told[first[group.rank]]:
            memory = SharedMemory.open(told[first[group.rank]])
    everyone = rounds.meet(int(memory is not None))
    if memory is None or not all(row[2] for row in everyone):
        return None
    return Common(memory, is_single_machine=len(set(first)) == 1)


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


def build_shared(build: Callable[[], Built], rounds: Rounds, draws_ahead: bool) -> Built:
    """A sampler whose state the processes of a machine share, if they have common memory.

    Every process draws from the state and passes its changes to the sampler, in the same order, but
    only the owner of the memory makes them. All processes meet after each change. With
    `draws_ahead`, that is, if a thread prefetches batches, they also meet before it; otherwise each
    has ended its draws before the exchange of news, which comes before the change.

    Nothing is shared if the sampler does not learn or is not shareable (`Learning.is_shareable`),
    for instance because its histories are in files; in the latter case it is built again without
    shared memory.
    """
    common = common_memory(rounds)
    with placed_in(common.memory if common else None):
        sampler = build()
    if common is None or not sampler.learning.learns:
        return sampler
    if not all(row[2] for row in rounds.meet(int(sampler.learning.is_shareable(common.memory)))):
        del sampler, common
        return build()
    is_owner = common.memory.is_owner

    def take_turn(change: Callable[[], None]) -> None:
        if draws_ahead:
            rounds.meet()  # no process draws
        if is_owner:
            change()
        rounds.meet()  # the change is made

    sampler.learning.change_by(take_turn)
    return sampler


class Slots:
    """Vectors of all processes, gathered through the memory of their machine.

    Each process writes its own, all meet, and each reads all. Two sets of slots take turns, because
    a fast process writes its next vectors while a slow one still reads.

    Parameters
    ----------
    common
        The common memory.
    rounds
        The processes.
    shape
        Shape of the vectors of a process, float32.
    """

    def __init__(self, common: Common, rounds: Rounds, shape: tuple[int, ...]) -> None:
        self._rank = rounds.group.rank
        with placed_in(common.memory):
            sets = [zeros((rounds.group.size, *shape), "float32") for _ in range(2)]
        self._sets = [torch.from_numpy(one) for one in sets]  # [R, *shape]
        self._turn = 0

    def write(self, own: Tensor) -> None:
        """Write the vectors of this process."""
        self._turn = 1 - self._turn
        self._sets[self._turn][self._rank] = own

    def read(self) -> list[Tensor]:
        """Vectors of all processes by rank, once all have met after writing."""
        return list(self._sets[self._turn].unbind())
