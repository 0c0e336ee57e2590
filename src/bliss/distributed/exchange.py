"""Exchange of a step between its shards: gradients, running statistics, loss and updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from bliss.distributed.agreement import Communicator
from bliss.distributed.packing import pack_news, unpack_news
from bliss.distributed.reduction import VectorReduction
from bliss.distributed.shards import ShardVector
from bliss.feedback import News


class Combined(NamedTuple):
    """One step of all shards, equal in all processes. The model holds its mean gradient."""

    loss: float  # mean over shards
    news: list[Sequence[News]]  # of the shards, in order; empty if the sampler does not learn
    counts: list[int]  # sums over shards


class Exchange(Protocol):
    """Combines the shards of each step, of which a process runs some, one after the other."""

    def begin_step(self) -> None:
        """Call before the first shard of this process."""

    def begin_shard(self) -> None:
        """Call before the forward pass of each shard."""

    def end_shard(self, loss: Tensor, news: Sequence[News], counts: Sequence[int]) -> None:
        """Take a shard's results after its backward pass; its gradients are in the model.

        loss    scalar
        news    by layer, input layer first; empty if the sampler does not learn
        counts  at most three integers to add
        """

    def combine(self) -> Combined:
        """Put the mean gradient of all shards into the model, and return the rest of the step."""


class LocalExchange:
    """The exchange of steps of one shard: the shard is the step."""

    def begin_step(self) -> None:
        """Do nothing."""

    def begin_shard(self) -> None:
        """Do nothing."""

    def end_shard(self, loss: Tensor, news: Sequence[News], counts: Sequence[int]) -> None:
        """Keep the results."""
        self._step = Combined(loss.item(), [news] if news else [], list(counts))

    def combine(self) -> Combined:
        """Return the shard's results. Its gradient is that of the step."""
        step = self._step
        del self._step  # news may be large
        return step


class _ShardResult(NamedTuple):
    vector: Tensor  # float32[P], see `ShardVector`
    news: Sequence[News]
    counts: Sequence[int]


class ShardExchange:
    """The exchange of steps of several shards, in one process or in many.

    With reduction "exact", any number of processes gives the same bits: gradients and losses are
    added in the order of shards (see `VectorReduction`), running statistics are the mean over
    shards (see `ShardVector`), and all updates pass through `pack_news`, which rounds them.

    `reduction` is "exact" or "allreduce", `shards` the number of shards of a step.
    """

    def __init__(
        self,
        communicator: Communicator,
        model: nn.Module,
        shards: int,
        reduction: str,
        device: torch.device,
    ) -> None:
        self._results: list[_ShardResult] = []  # of the own shards of the current step
        self._vector = ShardVector(model)
        self._reduce = VectorReduction(communicator, shards, reduction, self._vector.length, device)

    def begin_step(self) -> None:
        """Remember the running statistics before the step."""
        self._vector.begin_step()
        self._results.clear()

    def begin_shard(self) -> None:
        """Restore the running statistics."""
        self._vector.begin_shard()

    def end_shard(self, loss: Tensor, news: Sequence[News], counts: Sequence[int]) -> None:
        """Copy gradients, running statistics and loss from the model; keep updates and counts."""
        self._results.append(_ShardResult(self._vector.read(loss), news, counts))

    def combine(self) -> Combined:
        """Exchange the results of all shards, and write their mean to the model."""
        vectors, own_news, counts = zip(*self._results, strict=True)
        packed = pack_news(own_news) if any(own_news) else np.empty(0, np.uint8)
        sums = [sum(column) for column in zip(*counts, strict=True)]
        reduced = self._reduce(vectors, packed, sums)
        self._vector.write(reduced.vector)
        self._results.clear()
        news: list[Sequence[News]] = []
        for payload in reduced.payloads:
            news += unpack_news(payload) if payload.size else []
        return Combined(reduced.last, news, reduced.sums)


def build_exchange(
    communicator: Communicator,
    model: nn.Module,
    shards: int,
    reduction: str,
    device: torch.device,
) -> Exchange:
    """The exchange of steps of so many shards; see `ShardExchange` for the parameters."""
    if shards == 1:
        return LocalExchange()
    return ShardExchange(communicator, model, shards, reduction, device)
