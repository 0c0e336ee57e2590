"""Exchange of a step: gradients are added in the order of shards, and news goes to all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bliss.groups import Bytes
from bliss.train.rounds import Rounds
from bliss.train.sharing import Common, Slots


class Combined(NamedTuple):
    """One step of all shards."""

    vector: Tensor  # float32[P] mean of the shards' vectors
    loss: float  # mean of the shards' losses, the last entry of their vectors
    content: list[Bytes]  # what each process has sent
    sums: list[int]  # sums of the numbers of all processes


class Exchange:
    """The exchange of each step, in one of three ways.

    * reduction "exact": the vectors of all processes are gathered and added in the order of shards,
      so that any number of processes gives the same bits. Content is sent with them.
    * "exact" with all processes on one machine, on the CPU: the same, through common memory.
    * "allreduce": each process adds its own vectors, and the backend adds the sums. This sends
      less to many machines, but rounds differently.

    Parameters
    ----------
    rounds
        The processes.
    shards
        Number S of shards of a step.
    reduction
        "exact" or "allreduce".
    common
        Memory that the processes of a machine share, if there is any.
    """

    def __init__(
        self, rounds: Rounds, shards: int, reduction: str, common: Common | None = None
    ) -> None:
        self._rounds, self._shards = rounds, shards
        self._is_exact = reduction == "exact"
        self._common = common if common and common.is_whole and self._is_exact else None
        self._slots: Slots | None = None

    def __call__(
        self,
        vectors: Sequence[Tensor],
        content: Bytes,
        numbers: Sequence[int] = (),
        notice: int = 0,
    ) -> Combined:
        """Give what this process has, and get the step of all.

        Parameters
        ----------
        vectors
            Vectors float32[P] of the shards of this process, on any device.
        content
            Bytes for all processes. uint8[N].
        numbers
            At most three numbers to add.
        notice
            A signal number to tell all processes.
        """
        own, group = torch.stack(tuple(vectors)), self._rounds.group  # [S / R, P]
        slots = self._slots_for(own)
        if slots:
            slots.write(own)
        rows = self._rounds.meet(content.size, *numbers, notice=notice)
        sizes = [row[2] for row in rows]
        sums = [sum(row[3 + place] for row in rows) for place in range(len(numbers))]
        if not self._is_exact:
            total = group.add(_sum(own.unbind())) / self._shards
            told = group.gather_bytes(content, sizes)
            return Combined(total, total[-1].item(), told, sums)
        if slots:
            found, told = slots.read(), group.gather_bytes(content, sizes)
        else:
            found, told = self._gathered(own, content, sizes)
        everyone = [vector for rank in found for vector in rank.unbind()]
        losses = [vector[-1].item() for vector in everyone]
        return Combined(_sum(everyone) / self._shards, sum(losses) / self._shards, told, sums)

    def _slots_for(self, own: Tensor) -> Slots | None:
        if self._common is not None and own.device.type == "cpu" and self._slots is None:
            self._slots = Slots(self._common, self._rounds, tuple(own.shape))
        return self._slots

    def _gathered(
        self, own: Tensor, content: Bytes, sizes: Sequence[int]
    ) -> tuple[list[Tensor], list[Bytes]]:
        """Vectors and content of all processes, in a single message of each."""
        start = own.nbytes
        packed = own.new_empty(start + max(sizes), dtype=torch.uint8)
        packed[:start] = own.view(torch.uint8).view(-1)
        packed[start : start + content.size] = torch.from_numpy(content)
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
