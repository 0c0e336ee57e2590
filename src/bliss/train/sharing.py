"""One copy of a sampler's learnt state per machine, in memory that its processes share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from bliss.groups import first_ranks, gather_text
from bliss.memory import SharedMemory, placed_in
from bliss.samplers.base import Sampler
from bliss.train.rounds import Rounds


def shared_memory(rounds: Rounds) -> SharedMemory | None:
    """Memory that the processes of each machine share, owned by the first of them.

    None, in all processes, if every process has a machine of its own, or if a system does not allow
    it; each process then has a state of its own.
    """
    group = rounds.group
    if group.size == 1:
        return None
    first = first_ranks(group)
    if len(set(first)) == group.size:
        return None
    found: SharedMemory | None = None
    with suppress(OSError):
        if first[group.rank] == group.rank:
            found = SharedMemory.create()
    told = gather_text(group, found.address if found else "")
    with suppress(OSError):
        if found is None and told[first[group.rank]]:
            found = SharedMemory.open(told[first[group.rank]])
    everyone = rounds.meet(int(found is not None))
    return found if all(row[2] for row in everyone) else None


def build_shared(build: Callable[[], Sampler], rounds: Rounds, draws_ahead: bool) -> Sampler:
    """A sampler whose state the processes of a machine share, if there is memory for that.

    Every process draws from the state and passes its changes to the sampler, in the same order, but
    only the owner of the memory makes them. All processes meet after each change. They meet before
    it, too, if a thread `draws_ahead`; otherwise each has ended its draws before the exchange of
    news, which comes before the change.

    A sampler with learnt arrays elsewhere, such as histories in files, is built without sharing.
    """
    memory = shared_memory(rounds)
    if memory is None:
        return build()
    with placed_in(memory):
        sampler = build()
    arrays = [one.numpy() for one in sampler.state_dict().values()]
    if not sampler.learns or not memory.holds(arrays):
        return build()
    is_owner = memory.is_owner

    def take_turn(change: Callable[[], None]) -> None:
        if draws_ahead:
            rounds.meet()  # no process draws
        if is_owner:
            change()
        rounds.meet()  # the change is made

    sampler.change_by(take_turn)
    return sampler
