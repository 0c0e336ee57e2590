"""One training step: sample, forward, backward, optimiser, policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter

import torch
from torch import Tensor
from torch_geometric.data import Data

from bliss.data import cache_folder
from bliss.errors import InputError
from bliss.loader import BlockLoader
from bliss.rng import Stream
from bliss.train.records import Sampled
from bliss.train.task import Task, torch_seed

PARTS = ("sample", "gather", "forward", "backward", "update", "total")
TIMED = 1000
"""Number of latest steps whose times are kept for medians."""
LARGE = 1e4
"""Features above this are named as the cause of a loss that is not finite."""


class Learner:
    """Trains the network of a task step by step: its sampler, loader and optimiser.

    Every random choice is a function of seed and step.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        config = task.config
        kind = config.sampler_config
        self.sampler = kind.build(
            task.graph,
            config.budgets,
            layers=config.layers,
            seed=config.seed,
            x=task.x if kind.needs_features else None,
            widths=task.model.widths[:-1],
            folder=cache_folder(),
        )
        seeds, batch_size = task.dataset.splits["train"], config.batch_size
        if not self.sampler.makes_batches:  # subgraph samplers may draw more nodes than seeds
            batch_size = min(batch_size, len(seeds))
        self.loader = BlockLoader(
            Data(x=task.x, y=task.y, num_nodes=task.graph.num_nodes),
            self.sampler,
            seeds,
            batch_size=batch_size,
            shuffle=config.batch_size < len(seeds),  # order is irrelevant in a batch of all seeds
            drop_last=True,
            prefetch=config.prefetch,
            feature_cache=config.feature_cache,
        )
        self.optimizer = torch.optim.Adam(
            task.model.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True
        )
        self.losses = [0.0, 0.0]  # sum and number since the last call of `mean_loss`
        self.step_seconds = 0.0  # sum over all steps
        self.sampled = [0, 0]  # input nodes and edges of all layers, summed over steps
        self.times = {part: deque[float](maxlen=TIMED) for part in PARTS}

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self.loader.step

    def batches(self, is_done: Callable[[], bool] = lambda: False) -> Iterator[Data]:
        """Batches until the last step of the settings, or until `is_done()`."""
        last = self.task.config.steps
        while self.steps < last and not is_done():
            for batch in self.loader:
                yield batch
                if self.steps >= last or is_done():
                    break

    def learn(self, batch: Data) -> float:
        """Take one step on a batch of `batches`; returns the loss."""
        config, model, device = self.task.config, self.task.model, self.task.device
        started = self._clock()
        torch.manual_seed(torch_seed(config.seed, Stream.DROPOUT, self.steps))
        model.train()
        self._set_rate()
        batch = batch.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
            logits = model(batch.x.float(), batch.blocks)  # features may be float16
        loss = self.task.loss(logits, batch.y, batch.blocks[-1].dst_weight)
        value = loss.item()
        if not -float("inf") < value < float("inf"):
            raise InputError(f"loss={value} at step {self.steps}: {self._cause(batch.x)}")
        forward = self._clock()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        backward = self._clock()
        self.sampler.update(batch.blocks)
        updated = self._clock()
        self.losses = [self.losses[0] + value, self.losses[1] + 1]
        self.sampled[0] += batch.blocks[0].num_src
        self.sampled[1] += sum(block.num_edges for block in batch.blocks)
        parts = {"forward": forward - started, "backward": backward - forward}
        self._record(batch.seconds._asdict() | parts | {"update": updated - backward})
        return value

    def _cause(self, x: Tensor) -> str:
        """Likely cause of a loss that is not finite, and the remedy. x [S, F]: features."""
        largest = float(x.abs().max())  # NaN if there is one
        if not largest < float("inf"):
            return "features hold NaN or infinity, replace them by finite numbers."
        if largest > LARGE:
            return f"features reach {largest:.3g}, scale them to a deviation of about 1."
        rate = self.task.config.lr
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
        nodes, edges = (count / max(self.steps, 1) for count in self.sampled)
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
        config = self.task.config
        rate = config.lr * config.lr_decay ** (self.loader.epoch // config.decay_epochs)
        if config.schedule == "linear":
            rate *= 1 - (self.steps - 1) / config.steps
        for group in self.optimizer.param_groups:
            group["lr"] = rate
