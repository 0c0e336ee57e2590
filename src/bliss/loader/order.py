"""Order of the seeds: which of them each step of an epoch takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.loader.arguments import positions
from bliss.rng import Stream, derive_key, hashes
from bliss.samplers.base import Sampler


class Order(Protocol):
    """Seeds of each step of an epoch: a pure function of the epoch."""

    def steps(self, epoch: int) -> Iterator[list[IntArray]]:
        """Seeds of each step, one array per shard."""

    def length(self, epoch: int) -> int:
        """Number of steps in an epoch."""


@dataclass(frozen=True)
class EpochOrder:
    """Positions of the seeds, in their order or shuffled, cut into batches and shards."""

    size: int  # number of seeds
    batch_size: int
    shards: int = 1
    drop_last: bool = False
    shuffle_seed: int | None = None  # None: not shuffled
    ranked: IntArray | None = None  # int64[size] order of the seeds, of which batches are shuffled

    def __post_init__(self) -> None:
        if self.shards > 1 and not self.drop_last:
            raise InputError(
                f"shards={self.shards} needs drop_last=True, so that every shard has equally many "
                "batches of equal size: pass it."
            )

    def steps(self, epoch: int) -> Iterator[list[IntArray]]:
        """Positions of each shard of a step. Arrays int64[B]."""
        order: IntArray = np.arange(self.size)
        size = self.batch_size * self.shards
        starts = np.arange(self.length(epoch)) * size
        if self.shuffle_seed is not None:  # a pure function of seed and epoch
            key = derive_key(self.shuffle_seed, Stream.ORDER, epoch)
            if self.ranked is None:
                order = np.argsort(hashes(key, order), kind="stable")
            else:
                spare = max(self.size - starts.size * size, 0)  # seeds that are left out, if any
                first = int(hashes(key, np.array([self.size]))[0] % np.uint64(spare + 1))
                starts = starts[np.argsort(hashes(key, starts), kind="stable")] + first
        if self.ranked is not None:
            order = self.ranked
        for start in starts:
            yield np.split(order[start : start + size], self.shards)

    def length(self, epoch: int) -> int:
        """Number of steps; the same in every epoch."""
        whole, rest = divmod(self.size, self.batch_size * self.shards)
        return whole + bool(rest and not self.drop_last)


@dataclass(frozen=True)
class GivenOrder:
    """Positions of the seeds of each batch, given by the user."""

    size: int  # number of seeds
    batches: Iterable[Any]

    def steps(self, epoch: int) -> Iterator[list[IntArray]]:
        """Positions of each batch. Arrays int64[B]."""
        yield from ([positions(index, self.size)] for index in self.batches)

    def length(self, epoch: int) -> int:
        """Number of batches."""
        return len(self.batches)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SamplerOrder:
    """Node ids of each batch, chosen by a sampler that makes its own batches."""

    sampler: Sampler
    shards: int = 1

    def steps(self, epoch: int) -> Iterator[list[IntArray]]:
        """Node ids of each shard of a step. Arrays int64[B]."""
        batches = self.sampler.batches(epoch)
        for start in range(0, self.length(epoch) * self.shards, self.shards):
            yield list(batches[start : start + self.shards])

    def length(self, epoch: int) -> int:
        """Number of steps."""
        return len(self.sampler.batches(epoch)) // self.shards
