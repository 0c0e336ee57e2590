"""Mean of the vectors of all shards, and bytes of all processes beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bliss.arrays import Bytes
from bliss.distributed.agreement import Communicator
from bliss.distributed.shared_state import DoubleBuffer, open_common_memory


class Reduced(NamedTuple):
    """What a reduction returns, equal in all processes."""

    vector: Tensor  # float32[P] mean of the vectors
    last: float  # mean of their last entries, in float64
    payloads: list[Bytes]  # by rank
    sums: list[int]  # sums of the integers of all processes


class VectorReduction:
    """Mean of the vectors of all shards, in one of three ways.

    * reduction "exact": the vectors of all processes are gathered and added in the order of shards,
      so that any number of processes gives the same bits. The payload is sent in the same message.
    * "exact" with all processes on one machine, on the CPU: the same sums, of vectors in shared
      memory.
    * "allreduce": each process adds its own vectors, and the backend adds the sums. This sends
      fewer bytes between machines, but rounds differently.

    `reduction` is "exact" or "allreduce"; P is `length`.
    """

    def __init__(
        self,
        communicator: Communicator,
        shards: int,
        reduction: str,
        length: int,
        device: torch.device,
    ) -> None:
        self._communicator, self._shards = communicator, shards
        self._is_exact = reduction == "exact"
        self._buffer: DoubleBuffer | None = None
        common = open_common_memory(communicator) if self._is_exact else None
        if common and communicator.all_true(common.is_single_machine and device.type == "cpu"):
            shape = shards // communicator.group.size, length
            self._buffer = DoubleBuffer(common, communicator.group, shape)

    def __call__(
        self, vectors: Sequence[Tensor], payload: Bytes, numbers: Sequence[int] = ()
    ) -> Reduced:
        """Reduce the vectors of all processes.

        vectors  float32[P] each, of the shards of this process, on any device
        payload  uint8[N], for all processes, of any length
        numbers  at most three integers to add
        """
        own, group = torch.stack(tuple(vectors)), self._communicator.group  # [S / R, P]
        if self._buffer:
            self._buffer.write(own)
        rows = self._communicator.all_gather(payload.size, *numbers)
        sizes, *columns = zip(*rows, strict=True)
        sums = [sum(column) for column in columns]
        if not self._is_exact:
            mean = group.all_reduce(_sum(own.unbind())) / self._shards
            payloads = group.all_gather_bytes(payload, sizes)
            return Reduced(mean, mean[-1].item(), payloads, sums)
        if self._buffer:
            gathered, payloads = self._buffer.read(), group.all_gather_bytes(payload, sizes)
        else:
            gathered, payloads = self._gather(own, payload, sizes)
        in_order = [vector for rank in gathered for vector in rank.unbind()]  # of shards
        last = [vector[-1].item() for vector in in_order]
        mean = _sum(in_order) / self._shards
        return Reduced(mean, sum(last) / self._shards, payloads, sums)

    def _gather(
        self, own: Tensor, payload: Bytes, sizes: Sequence[int]
    ) -> tuple[list[Tensor], list[Bytes]]:
        """Vectors and payloads of all processes, by rank, in a single message of each."""
        start = own.nbytes
        message = own.new_empty(start + max(sizes), dtype=torch.uint8)
        message[:start] = own.view(torch.uint8).view(-1)
        message[start : start + payload.size] = torch.from_numpy(payload)
        messages = self._communicator.group.all_gather(message)
        vectors = [message[:start].view(own.dtype).view_as(own) for message in messages]
        payloads = [
            message[start : start + size].cpu().numpy()
            for message, size in zip(messages, sizes, strict=True)
        ]
        return vectors, payloads


def _sum(vectors: Sequence[Tensor]) -> Tensor:
    """Sum in the order given."""
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total
