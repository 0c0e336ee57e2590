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
    """Gradients, running statistics and loss of a shard as one vector float32[P].

    Batch normalisation takes the statistics of a batch from its own shard. Each shard updates the
    running statistics from their values before the step; the mean over shards is their new value.
    So a step of S shards is one step of time, and nothing depends on the number of processes.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.parameters())
        self._buffers = list(model.buffers())
        self._statistics = [buffer for buffer in self._buffers if buffer.is_floating_point()]
        self._before = [buffer.clone() for buffer in self._buffers]
        self.length = sum(t.numel() for t in [*self._parameters, *self._statistics]) + 1  # P

    def begin_step(self) -> None:
        """Remember the running statistics before a step."""
        for before, now in zip(self._before, self._buffers, strict=True):
            before.copy_(now)

    def begin_shard(self) -> None:
        """Restore the running statistics before a shard."""
        for before, now in zip(self._before, self._buffers, strict=True):
            now.copy_(before)

    def read(self, loss: Tensor) -> Tensor:
        """The vector after a shard's backward pass. float32[P]."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]
        parts = [*grads, *self._statistics, loss.detach()]
        return torch.cat([part.reshape(-1) for part in parts])

    def write(self, vector: Tensor) -> None:
        """Set gradients and running statistics from a vector."""
        sizes = [tensor.numel() for tensor in [*self._parameters, *self._statistics]]
        parts = torch.split(vector[:-1], sizes)
        for parameter, grad in zip(self._parameters, parts, strict=False):
            parameter.grad = grad.view_as(parameter)
        for statistic, mean in zip(self._statistics, parts[len(self._parameters) :], strict=True):
            statistic.copy_(mean.view_as(statistic))
