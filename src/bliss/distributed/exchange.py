"""Exchange of a step: the mean gradient of all shards, and the news of all processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bliss.distributed.groups import Bytes
from bliss.distributed.rounds import Rounds
from bliss.distributed.shared_state import Slots, common_memory


class Combined(NamedTuple):
    """One step of all shards."""

    vector: Tensor  # float32[P] mean of the shards' vectors
    loss: float  # mean of the shards' losses, the last entry of their vectors
    news: list[Bytes]  # packed news of each process
    sums: list[int]  # sums of the numbers of all processes


class Exchange:
    """The exchange of each step, in one of three ways.

    A vector holds the gradient, the running statistics and the loss of a shard (`ShardVector`).

    * reduction "exact": the vectors of all processes are gathered and added in the order of shards,
      so that any number of processes gives the same bits. News is sent in the same message.
    * "exact" with all processes on one machine, on the CPU: the same sums, of vectors in common
      memory.
    * "allreduce": each process adds its own vectors, and the backend adds the sums. This sends
      fewer bytes between machines, but rounds differently.

    Parameters
    ----------
    rounds
        The processes.
    shards
        Number S of shards of a step.
    reduction
        "exact" or "allreduce".
    length
        Length P of a vector.
    device
        Device of the vectors.
    """

    def __init__(
        self, rounds: Rounds, shards: int, reduction: str, length: int, device: torch.device
    ) -> None:
        self._rounds, self._shards = rounds, shards
        self._is_exact = reduction == "exact"
        self._slots: Slots | None = None
        common = common_memory(rounds) if self._is_exact else None
        if common is None:
            return
        is_near = common.is_single_machine and device.type == "cpu"
        if all(row[2] for row in rounds.meet(int(is_near))):
            self._slots = Slots(common, rounds, (shards // rounds.group.size, length))

    def __call__(
        self,
        vectors: Sequence[Tensor],
        news: Bytes,
        numbers: Sequence[int] = (),
        notice: int = 0,
    ) -> Combined:
        """Exchange the vectors and news of this process; returns the combined step.

        Parameters
        ----------
        vectors
            Vectors float32[P] of the shards of this process, on any device.
        news
            Packed news of the same shards. uint8[N].
        numbers
            At most three numbers to add.
        notice
            Number of a signal that this process has received, for all processes; 0: none.
        """
        own, group = torch.stack(tuple(vectors)), self._rounds.group  # [S / R, P]
        slots = self._slots
        if slots:
            slots.write(own)
        rows = self._rounds.meet(news.size, *numbers, notice=notice)
        sizes = [row[2] for row in rows]
        sums = [sum(row[3 + place] for row in rows) for place in range(len(numbers))]
        if not self._is_exact:
            total = group.add(_sum(own.unbind())) / self._shards
            told = group.gather_bytes(news, sizes)
            return Combined(total, total[-1].item(), told, sums)
        if slots:
            found, told = slots.read(), group.gather_bytes(news, sizes)
        else:
            found, told = self._gathered(own, news, sizes)
        everyone = [vector for rank in found for vector in rank.unbind()]
        losses = [vector[-1].item() for vector in everyone]
        return Combined(_sum(everyone) / self._shards, sum(losses) / self._shards, told, sums)

    def _gathered(
        self, own: Tensor, news: Bytes, sizes: Sequence[int]
    ) -> tuple[list[Tensor], list[Bytes]]:
        """Vectors and news of all processes, in a single message of each."""
        start = own.nbytes
        packed = own.new_empty(start + max(sizes), dtype=torch.uint8)
        packed[:start] = own.view(torch.uint8).view(-1)
        packed[start : start + news.size] = torch.from_numpy(news)
        found = self._rounds.group.gather(packed)
        told = [
            one[start : start + size].cpu().numpy() for one, size in zip(found, sizes, strict=True)
        ]
        return [one[:start].view(own.dtype).view_as(own) for one in found], told


def _sum(vectors: Sequence[Tensor]) -> Tensor:
    """Sum in the order given."""
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total
