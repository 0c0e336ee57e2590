"""One training step: sample, forward, backward, optimiser, policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss.data import cache_folder
from bliss.distributed.exchange import Exchange
from bliss.distributed.groups import Group
from bliss.distributed.packing import pack_news, unpack_news
from bliss.distributed.rounds import ALONE, Rounds
from bliss.distributed.shards import ShardVector, shards_of
from bliss.distributed.shared_state import build_shared
from bliss.errors import DivergedError, InputError
from bliss.rng import Stream
from bliss.samplers.base import StepNews
from bliss.train.adam import Adam
from bliss.train.batch import NodeData, NodeLoader
from bliss.train.results import Sampled
from bliss.train.task import Task, torch_seed

PARTS = ("sample", "gather", "forward", "backward", "update", "total")
TIMED = 1000
"""Number of latest steps whose times are kept for medians."""
LARGE = 1e4
"""Features above this are named as the cause of a loss that is not finite."""


class Shard(NamedTuple):
    """What one shard of a step gives to the others."""

    vector: Tensor  # float32[P], see `ShardVector`
    news: StepNews


class Learner:
    """Trains the network of a task step by step: its sampler, loader and optimiser.

    Every random choice is a function of seed, step and shard. A step is the mean over S shards, of
    which each process of a group runs an equal part. What the policy learns and the gradients are
    exchanged; their order is that of the shards, so any number of processes gives the same numbers.

    With S > 1, the running statistics of batch normalisation are the mean of those of the shards,
    and news passes through its form as bytes, in one process, too.

    Parameters
    ----------
    task
        The data and the network.
    group
        The processes that train together; by default this one alone.
    """

    def __init__(self, task: Task, group: Group = ALONE) -> None:
        self.task, self.rounds = task, Rounds(group)
        config, training = task.config, task.config.training
        self.own_shards = shards_of(group, training.shards)
        kind = config.sampler.config
        build = partial(
            kind.build,
            task.graph,
            config.sampler.budgets,
            layers=config.network.layers,
            seed=config.seed,
            x=task.x if kind.needs_features else None,
            widths=task.model.widths[:-1],
            folder=cache_folder(),
        )
        self.sampler = build_shared(build, self.rounds, draws_ahead=training.prefetch > 0)
        seeds, batch_size = task.dataset.splits["train"], training.batch_size
        if training.shards > len(seeds):
            raise InputError(
                f"shards={training.shards} exceeds the {len(seeds)} training nodes: lower --shards."
            )
        if not self.sampler.makes_batches:  # subgraph samplers may draw more nodes than seeds
            batch_size = min(batch_size, len(seeds) // training.shards)
        self.loader = NodeLoader(
            NodeData(x=task.x, y=task.y, num_nodes=task.graph.num_nodes),
            self.sampler,
            seeds,
            batch_size=batch_size,
            # order is irrelevant in a batch of all seeds
            shuffle=training.batch_size < len(seeds) or training.shards > 1,
            drop_last=True,
            prefetch=training.prefetch,
            shards=training.shards,
            shard=self.own_shards,
            feature_cache=config.data.feature_cache,
        )
        self._vector = ShardVector(task.model)
        self._combine = Exchange(
            self.rounds, training.shards, training.reduction, self._vector.length, task.device
        )
        self.optimizer = Adam(
            task.model.parameters(), lr=training.lr, weight_decay=training.weight_decay, fused=True
        )
        self.losses = [0.0, 0.0]  # sum and number since the last call of `mean_loss`
        self.step_seconds = 0.0  # sum over all steps
        self.sampled = [0, 0]  # input nodes and edges of all layers, summed over steps and shards
        self.times = {part: deque[float](maxlen=TIMED) for part in PARTS}

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self.loader.step

    def batches(self, is_done: Callable[[], bool] = lambda: False) -> Iterator[Iterable[NodeData]]:
        """Batches of the own shards by step, until the last one of the settings or `is_done()`."""
        last = self.task.config.training.steps
        while self.steps < last and not is_done():
            for step in self.loader.steps():
                yield step
                if self.steps >= last or is_done():
                    break

    def learn(self, step: Iterable[NodeData], notice: int = 0) -> float:
        """Take one step of `batches`; returns the loss, the mean over shards.

        `notice` is a signal number to tell all processes, see `Rounds`.
        """
        self.task.model.train()
        self._set_rate()
        parts = dict.fromkeys(PARTS[:-1], 0.0)
        sampled, is_single = [0, 0], self.task.config.training.shards == 1
        shards: list[Shard] = []
        if not is_single:
            self._vector.begin_step()
        for number, batch in zip(self.own_shards, step, strict=True):
            if not is_single:
                self._vector.begin_shard()
            batch, loss = self._backward(number, batch, parts)
            sampled[0] += batch.blocks[0].num_src
            sampled[1] += sum(block.num_edges for block in batch.blocks)
            if not is_single:
                shards.append(self._shard(batch, loss, parts))
        started = self._clock()
        if is_single:
            value, news = loss.item(), None
            self.rounds.notice = notice
        else:
            value, news, sampled = self._exchange(shards, sampled, notice)
        self.optimizer.step()
        parts["backward"] += self._clock() - started
        started = self._clock()
        if news is None:
            self.sampler.update(batch.blocks)
        elif self.sampler.learns:
            self.sampler.apply(news)
        parts["update"] += self._clock() - started
        self.losses = [self.losses[0] + value, self.losses[1] + 1]
        self.sampled = [self.sampled[0] + sampled[0], self.sampled[1] + sampled[1]]
        self._record(parts)
        return value

    def _backward(
        self, shard: int, batch: NodeData, parts: dict[str, float]
    ) -> tuple[NodeData, Tensor]:
        """Gradient of a shard's loss; returns the batch on the device, and the loss."""
        config, device = self.task.config, self.task.device
        started = self._clock()
        within = (shard,) if shard else ()
        torch.manual_seed(torch_seed(config.seed, Stream.DROPOUT, self.steps, *within))
        batch = batch.to(device)
        is_half = config.training.precision == "bfloat16"
        with torch.autocast(device.type, torch.bfloat16, enabled=is_half):
            logits = self.task.model(batch.x.float(), batch.blocks)  # features may be float16
        loss = self.task.loss(logits, batch.y, batch.blocks[-1].dst_weight)
        value = loss.item()
        if not -float("inf") < value < float("inf"):
            raise DivergedError(f"loss={value} at step {self.steps}: {self._cause(batch.x)}")
        forward = self._clock()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        taken = {"forward": forward - started, "backward": self._clock() - forward}
        for part, seconds in (batch.seconds._asdict() | taken).items():
            parts[part] += seconds
        return batch, loss.detach()

    def _shard(self, batch: NodeData, loss: Tensor, parts: dict[str, float]) -> Shard:
        started = self._clock()
        news = self.sampler.digest(batch.blocks) if self.sampler.learns else ()
        parts["update"] += self._clock() - started
        return Shard(self._vector.read(loss), news)

    def _exchange(
        self, shards: list[Shard], sampled: list[int], notice: int
    ) -> tuple[float, list[StepNews], list[int]]:
        """Set the gradient of all shards; returns their mean loss, their news and their sums."""
        packed = np.empty(0, np.uint8)
        if self.sampler.learns:
            packed = pack_news(shard.news for shard in shards)
        total = self._combine([one.vector for one in shards], packed, sampled, notice)
        self._vector.write(total.vector)
        news: list[StepNews] = []
        if self.sampler.learns:
            for packed in total.news:
                news += unpack_news(packed)
        return total.loss, news, total.sums

    def _cause(self, x: Tensor) -> str:
        """Likely cause of a loss that is not finite, and the remedy. x [S, F]: features."""
        largest = float(x.abs().max())  # NaN if there is one
        if not largest < float("inf"):
            return "features hold NaN or infinity, replace them by finite numbers."
        if largest > LARGE:
            return f"features reach {largest:.3g}, scale them to a deviation of about 1."
        rate = self.task.config.training.lr
        return f"the network has diverged, lower lr (now {rate}) and start again."

    def mean_loss(self) -> float:
        """Mean loss since the last call."""
        total, count = self.losses
        self.losses = [0.0, 0.0]
        return total / max(count, 1.0)

    def step_ms(self) -> dict[str, float]:
        """Median milliseconds of each part of the latest steps."""
        return {part: median(taken) * 1e3 for part, taken in self.times.items() if taken}

    def mean_sampled(self) -> Sampled:
        """Mean numbers of nodes and edges per batch."""
        batches = max(self.steps, 1) * self.task.config.training.shards
        nodes, edges = (count / batches for count in self.sampled)
        return Sampled(nodes=nodes, edges=edges)

    def _record(self, parts: dict[str, float]) -> None:
        total = sum(parts.values())
        for part, taken in (parts | {"total": total}).items():
            self.times[part].append(taken)
        self.step_seconds += total

    def _clock(self) -> float:
        if self.task.device.type == "cuda":
            torch.cuda.synchronize(self.task.device)  # kernels run asynchronously
        return perf_counter()

    def _set_rate(self) -> None:
        """Set the learning rate of step t of T: lr lr_decay^(epoch // decay_epochs).

        The linear schedule multiplies this by 1 - (t - 1) / T.
        """
        config = self.task.config.training
        rate = config.lr * config.lr_decay ** (self.loader.epoch // config.decay_epochs)
        if config.schedule == "linear":
            rate *= 1 - (self.steps - 1) / config.steps
        for group in self.optimizer.param_groups:
            group["lr"] = rate
