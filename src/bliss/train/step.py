"""The training step: forward, loss, backward, exchange between shards, optimiser, policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from bliss.data import cache_folder
from bliss.distributed.agreement import Communicator
from bliss.distributed.exchange import Combined, build_exchange
from bliss.distributed.groups import ALONE, Group
from bliss.distributed.shards import shards_of
from bliss.distributed.shared_state import build_shared
from bliss.errors import DivergedError, InputError
from bliss.feedback import News
from bliss.loader.seed_loader import SeedLoader
from bliss.rng import Stream
from bliss.train.adam import Adam
from bliss.train.batch import NodeData
from bliss.train.learnt_rows import LearntBatch
from bliss.train.results import Sampled
from bliss.train.task import Task, torch_seed

PARTS = ("sample", "gather", "forward", "backward", "update", "total")
TIMED = 1000
"""Number of latest steps whose times are kept for medians."""
UNSCALED_FEATURE = 1e4
"""Features above this are named as the cause of a loss that is not finite."""


class Stepper:
    """Trains the network of a task step by step, with its sampler, loader and optimiser.

    Every random choice is a function of seed, step and shard. A step is the mean over S shards, of
    which each process of a group runs an equal part. The gradients and what the policy learns are
    exchanged in the order of shards, so any number of processes gives the same numbers.

    With S > 1, the running statistics of batch normalisation are the mean of those of the shards,
    and updates are rounded as between processes, in one process, too.

    Parameters
    ----------
    task
        The data and the network.
    group
        The processes that train together; by default this one alone.
    """

    def __init__(self, task: Task, group: Group = ALONE) -> None:
        self.task, self.communicator = task, Communicator(group)
        config, training = task.config, task.config.training
        self.own_shards = shards_of(group, training.shards)
        kind = config.sampler.config
        build = partial(
            kind.build,
            task.graph,
            config.sampler.budgets,
            layers=config.network.layers,
            seed=config.seed,
            x=task.fixed_inputs if kind.needs_features else None,
            widths=task.model.widths[:-1],
            folder=cache_folder(),
        )
        self.sampler = build_shared(build, self.communicator, draws_ahead=training.prefetch > 0)
        if training.shards > task.objective.num_seeds:
            raise InputError(
                f"shards={training.shards} exceeds the {task.objective.num_seeds} training "
                f"{task.objective.unit}: lower --shards."
            )
        self.loader = self.build_loader(training.batch_size)
        self.exchange = build_exchange(
            self.communicator, task.model, training.shards, training.reduction, task.device
        )
        self.optimizer = Adam(
            [{"params": list(task.model.parameters())}],  # there may be none
            lr=training.lr,
            weight_decay=training.weight_decay,
            fused=True,
        )
        self._learnt: LearntBatch | None = None  # rows of the embedding in the present batch
        self.losses = [0.0, 0.0]  # sum and number since the last call of `mean_loss`
        self.step_seconds = 0.0  # sum over all steps
        self.sampled = [0, 0]  # input nodes and edges of all layers, summed over steps and shards
        self.times = {part: deque[float](maxlen=TIMED) for part in PARTS}
        self._seconds: dict[str, float] = {}  # of the parts of the current step
        self._started = 0.0

    def build_loader(self, batch_size: int) -> SeedLoader:
        """A loader of the training seeds for the sampler, at the first step."""
        objective, config = self.task.objective, self.task.config
        shards, most = config.training.shards, objective.num_seeds
        # order is irrelevant in a batch of all seeds
        shuffle = batch_size < most or shards > 1
        if not self.sampler.makes_batches:  # subgraph samplers may draw more nodes than seeds
            batch_size = min(batch_size, most // shards)
        return objective.loader(
            self.task.features,
            self.sampler,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=True,
            prefetch=config.training.prefetch,
            shards=shards,
            shard=self.own_shards,
            feature_cache=config.data.feature_cache,
        )

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self.loader.step

    def batches(self, is_done: Callable[[], bool] = lambda: False) -> Iterator[Iterable[NodeData]]:
        """Batches of the own shards by step, until the last one of the settings or `is_done()`."""
        last = self.task.config.training.steps
        while self.steps < last and not is_done():
            for batches in self.loader.steps():
                yield batches
                if self.steps >= last or is_done():
                    break

    def step(self, batches: Iterable[NodeData]) -> float:
        """Take a step with one batch per own shard, from `batches`; returns the mean loss."""
        self.task.model.train()
        self._set_rate()
        self._seconds = dict.fromkeys(PARTS[:-1], 0.0)
        self.exchange.begin_step()
        for shard, batch in zip(self.own_shards, batches, strict=True):
            self._start_timer()
            self.exchange.begin_shard()
            batch = batch.to(self.task.device)
            loss = self._loss(batch, shard)
            self._end_part("forward")
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self._end_part("backward")
            news = self.sampler.digest(batch.blocks) if self.sampler.learns else []
            if self.task.embedding is not None and self._learnt is not None:
                news = [*news, self.task.embedding.digest(*self._learnt)]
            self.exchange.end_shard(loss.detach(), news, _counts(batch))
            self._end_part("update")
            self._seconds["sample"] += batch.seconds.sample
            self._seconds["gather"] += batch.seconds.gather
        self._start_timer()
        combined = self.exchange.combine()
        self.optimizer.step()
        shards = self._learn_rows(combined.news)
        self._end_part("backward")
        if shards:
            self.sampler.apply(shards)
        self._end_part("update")
        self._record(combined)
        return combined.loss

    def _learn_rows(self, shards: list[Sequence[News]]) -> list[Sequence[News]]:
        """Let the embedding learn from the last update of each shard; returns those before."""
        if self.task.embedding is None:
            return shards
        (group,), decay = self.optimizer.param_groups, self.task.config.training.weight_decay
        self.task.embedding.apply([news[-1] for news in shards], group["lr"], decay)
        return [news[:-1] for news in shards] if self.sampler.learns else []

    def _loss(self, batch: NodeData, shard: int) -> Tensor:
        """Loss of a shard's batch; raises an error with the likely cause if it is not finite."""
        config, within = self.task.config, (shard,) if shard else ()
        torch.manual_seed(torch_seed(config.seed, Stream.DROPOUT, self.steps, *within))
        is_half = config.training.precision == "bfloat16"
        x, self._learnt = self.task.inputs(batch)
        with torch.autocast(self.task.device.type, torch.bfloat16, enabled=is_half):
            logits = self.task.model(x, batch.blocks)
        loss = self.task.objective.loss(logits, batch)
        value = loss.item()
        if not isfinite(value):
            raise DivergedError(f"loss={value} at step {self.steps}: {self._cause(x)}")
        return loss

    def _cause(self, x: Tensor | Mapping[str, Tensor]) -> str:
        """Likely cause of a loss that is not finite, and the remedy. x: features, [S, F]."""
        parts = [x] if isinstance(x, Tensor) else [part for part in x.values() if part.numel()]
        largest = float(torch.stack([part.abs().max() for part in parts]).max())  # NaN if any is
        if not largest < float("inf"):
            return "features hold NaN or infinity, replace them by finite numbers."
        if largest > UNSCALED_FEATURE:
            return f"features reach {largest:.3g}, scale them with --features standard."
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

    def _record(self, step: Combined) -> None:
        """Count a step: its loss, the sizes of its batches and its times."""
        self.losses = [self.losses[0] + step.loss, self.losses[1] + 1]
        nodes, edges = step.counts
        self.sampled = [self.sampled[0] + nodes, self.sampled[1] + edges]
        total = sum(self._seconds.values())
        for part, seconds in (self._seconds | {"total": total}).items():
            self.times[part].append(seconds)
        self.step_seconds += total

    def _start_timer(self) -> None:
        self._started = self._clock()

    def _end_part(self, part: str) -> None:
        """Add the time since the last part, or the start of the timer, to a part of the step."""
        now = self._clock()
        self._seconds[part] += now - self._started
        self._started = now

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


def _counts(batch: NodeData) -> tuple[int, int]:
    """Number of input nodes of a batch, and of edges of all layers."""
    return batch.blocks[0].num_src, sum(block.num_edges for block in batch.blocks)
