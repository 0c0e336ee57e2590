"""Shards of a step: which process runs them, and what a shard gives to the step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bliss.distributed.groups import Group
from bliss.errors import InputError


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
        self.length = sum(one.numel() for one in [*self._parameters, *self._moving]) + 1  # P

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
