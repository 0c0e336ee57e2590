"""Shards of a step: gradients and moving statistics are added in the order of shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bliss.errors import InputError
from bliss.groups import Bytes, Group


class Combined(NamedTuple):
    """One step of all shards."""

    vector: Tensor  # float32[P] mean of the shards' vectors
    loss: float  # mean of the shards' losses
    content: list[Bytes]  # what each process has sent with them


def shards_of(group: Group, shards: int) -> range:
    """Numbers of the shards of this process: S / R consecutive ones."""
    check_processes(shards, group.size)
    each = shards // group.size
    return range(group.rank * each, (group.rank + 1) * each)


def check_processes(shards: int, processes: int) -> None:
    """Refuse a number of processes that does not divide the number of shards."""
    if shards % processes:
        allowed = [str(n) for n in range(1, shards + 1) if shards % n == 0]
        listed = " or ".join([", ".join(allowed[:-1]), allowed[-1]] if allowed[1:] else allowed)
        raise InputError(
            f"shards={shards} cannot be divided among {processes} processes: start {listed} of "
            f"them, or choose another number of shards, such as --shards {processes}."
        )


class ShardVector:
    """Gradients, moving statistics and loss of a shard as one vector float32[P].

    Batch normalisation takes the statistics of a batch from its own shard. Each shard moves the
    running statistics from their values before the step; the mean over shards is their new value.
    So a step of S shards is one step of time, and nothing depends on the number of processes.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.parameters())
        self._buffers = list(model.buffers())
        self._moving = [one for one in self._buffers if one.is_floating_point()]
        self._before = [one.clone() for one in self._buffers]

    def begin_step(self) -> None:
        """Remember the running statistics before a step."""
        for before, now in zip(self._before, self._buffers, strict=True):
            before.copy_(now)

    def begin_shard(self) -> None:
        """Restore the running statistics before a shard; forget the gradient of another shard."""
        for before, now in zip(self._before, self._buffers, strict=True):
            now.copy_(before)
        for parameter in self._parameters:
            parameter.grad = None

    def read(self, loss: Tensor) -> Tensor:
        """The vector after a shard's backward pass. float32[P]."""
        grads = [
            (torch.zeros_like(one) if one.grad is None else one.grad).reshape(-1)
            for one in self._parameters
        ]
        moving = [one.reshape(-1) for one in self._moving]
        return torch.cat([*grads, *moving, loss.detach().reshape(1)])

    def write(self, vector: Tensor) -> None:
        """Set gradients and running statistics from a vector."""
        place = 0
        for parameter in self._parameters:
            end = place + parameter.numel()
            parameter.grad = vector[place:end].view_as(parameter)
            place = end
        for one in self._moving:
            end = place + one.numel()
            one.copy_(vector[place:end].view_as(one))
            place = end


def combine(
    vectors: Sequence[Tensor],
    content: Bytes,
    sizes: Sequence[int],
    group: Group,
    shards: int,
    reduction: str,
) -> Combined:
    """Mean of the vectors of all shards, and the bytes of all processes.

    exact: the vectors of all processes are gathered and added in the order of shards, so that any
    number of processes gives the same bits. allreduce: each process adds its own, and the backend
    adds the sums, which sends less but rounds differently.

    Parameters
    ----------
    vectors
        Those of the shards of this process.
    content
        Bytes that this process sends with them. uint8[N].
    sizes
        Number N of bytes of each process, by rank.
    group, shards, reduction
        The processes, the number of shards, and "exact" or "allreduce".
    """
    if reduction == "allreduce":
        total = group.add(_sum(vectors)) / shards
        return Combined(total, total[-1].item(), group.gather_bytes(content, sizes))
    own = torch.stack(tuple(vectors))  # [S / R, P]
    packed = own.new_empty(own.nbytes + max(sizes), dtype=torch.uint8)  # one exchange for both
    packed[: own.nbytes] = own.view(torch.uint8).view(-1)
    packed[own.nbytes : own.nbytes + content.size] = torch.from_numpy(content)
    found = group.gather(packed)
    stacked = [one[: own.nbytes].view(own.dtype).view_as(own) for one in found]
    everyone = [vector for rank in stacked for vector in rank.unbind()]
    losses = [vector[-1].item() for vector in everyone]
    told = [
        one[own.nbytes : own.nbytes + size].cpu().numpy()
        for one, size in zip(found, sizes, strict=True)
    ]
    return Combined(_sum(everyone) / shards, sum(losses) / shards, told)


def _sum(vectors: Sequence[Tensor]) -> Tensor:
    """Sum in the order given."""
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total
