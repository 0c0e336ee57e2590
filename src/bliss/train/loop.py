"""The training loop: the method section, in order, and everything it takes to stop and go on."""

from __future__ import annotations

import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from bliss.data import Dataset, fingerprint
from bliss.errors import DamagedError, InputError, ResourceError
from bliss.graph import Graph
from bliss.loader import BlockLoader
from bliss.nn import GNN, infer
from bliss.rng import Stream, derive_key
from bliss.samplers import SAMPLERS, sampler_class
from bliss.train.config import TrainConfig
from bliss.train.folder import Checkpoint, RunFolder
from bliss.train.memory import forget_peak, peak_mb
from bliss.train.metrics import criterion, micro_f1
from bliss.train.records import Evaluation, RunResult, Sampled, StepTime

PARTS = ("sample", "gather", "forward", "backward", "update", "total")


class Progress(NamedTuple):
    """Where a run stands."""

    step: int
    steps: int
    loss: float
    val_f1: float  # the newest; NaN before the first evaluation


class Interrupted(Exception):
    """A signal ended the run after a whole step; a checkpoint was written."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


class Trainer:
    """One run: data, network, sampler, optimiser, folder.

    Every random choice is a function of seed and step, so a run resumed from a checkpoint ends with
    the same weights, policy state and metrics as one that was never stopped.
    """

    def __init__(
        self, config: TrainConfig, dataset: Dataset, out: str | Path, say: Callable[[str], None]
    ) -> None:
        _check(config, dataset)
        self.config, self.dataset, self.say = config, dataset, say
        self.folder = RunFolder(Path(out))
        self.device = torch.device(config.device)
        self.graph = _with_norm(dataset.graph, config)
        self.x = _row_normalised(dataset.x) if config.features == "row" else dataset.x
        torch.manual_seed(_torch_seed(config.seed, Stream.WEIGHTS))
        self.model = GNN(dataset.num_features, dataset.num_classes, config.model_config)
        self.model.to(self.device)
        features = {"x": self.x} if sampler_class(config.sampler).needs_features else {}
        self.sampler = SAMPLERS[config.sampler](
            self.graph,
            config.budgets,
            layers=config.layers,
            seed=config.seed,
            **config.sampler_arguments,
            **features,
        )
        seeds, batch_size = dataset.splits["train"], config.batch_size
        if not self.sampler.makes_batches:  # which may draw more than there are seeds
            batch_size = min(batch_size, len(seeds))
        self.loader = BlockLoader(
            Data(x=self.x, y=dataset.y, num_nodes=self.graph.num_nodes),
            self.sampler,
            seeds,
            batch_size=batch_size,
            shuffle=config.batch_size < len(seeds),  # a batch of all has no order to change
            drop_last=True,
            prefetch=config.prefetch,
        )
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=config.lr,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.best = {"step": 0, "val_f1": float("-inf")}
        self.stale = 0  # evaluations since the best
        self.losses = [0.0, 0.0]  # sum and number since the last evaluation
        self.val_f1 = float("nan")
        self.seconds = 0.0  # of the whole run
        self.step_seconds = 0.0  # of steps alone, without evaluations
        self.sampled = [0, 0]  # input nodes and edges of all layers, summed over steps
        self.times: dict[str, list[float]] = {part: [] for part in PARTS}

    def run(
        self,
        resume: bool = False,
        on_step: Callable[[Progress], None] | None = None,
        on_evaluation: Callable[[Evaluation], None] | None = None,
    ) -> RunResult:
        """Train to the end, write result.json and return it."""
        with self.folder.locked(), _signals() as stop:
            forget_peak(self.device)
            self._begin(resume)
            started = perf_counter()
            before = self.seconds
            for batch in self.batches():
                loss = self.learn(batch)
                self.seconds = before + perf_counter() - started
                step = self.loader.step
                is_last = step == self.config.steps
                if step % self.config.evaluate_every == 0 or is_last:
                    evaluation = self._evaluate(step)
                    self._checkpoint(step)
                    if on_evaluation:
                        on_evaluation(evaluation)
                elif stop:
                    self._checkpoint(step)
                if on_step:
                    on_step(Progress(step, self.config.steps, loss, self.val_f1))
                if stop and not is_last:
                    raise Interrupted(stop[0])
            return self._finish()

    def batches(self) -> Iterator[Data]:
        """Batches until the last step, or until patience ends."""
        config = self.config
        while self.loader.step < config.steps and not self._is_patience_spent():
            for batch in self.loader:
                yield batch
                if self.loader.step >= config.steps or self._is_patience_spent():
                    break

    def learn(self, batch: Data) -> float:
        """One step on a batch: forward, backward, optimiser, policy. Returns the loss."""
        config, started = self.config, perf_counter()
        torch.manual_seed(_torch_seed(config.seed, Stream.DROPOUT, self.loader.step))
        self.model.train()
        self._set_rate()
        batch = batch.to(self.device)
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"
        ):
            logits = self.model(batch.x, batch.blocks)
        loss = criterion(logits.float(), batch.y, batch.blocks[-1].dst_weight)
        value = loss.item()
        if value != value or value in (float("inf"), float("-inf")):
            raise InputError(
                f"loss={value} at step {self.loader.step}: the network has diverged. Lower lr "
                f"(now {config.lr}) and start anew."
            )
        forward = perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        backward = perf_counter()
        self.sampler.update(batch.blocks)
        updated = perf_counter()
        self.losses = [self.losses[0] + value, self.losses[1] + 1]
        parts = {
            **batch.seconds,
            "forward": forward - started,
            "backward": backward - forward,
            "update": updated - backward,
        }
        for part, taken in parts.items():
            self.times[part].append(taken)
        self.times["total"].append(sum(parts.values()))
        self.step_seconds += self.times["total"][-1]
        self.sampled[0] += batch.blocks[0].num_src
        self.sampled[1] += sum(block.num_edges for block in batch.blocks)
        return value

    def _set_rate(self) -> None:
        """The learning rate of step t of T: lr lr_decay^(epoch // decay_epochs).

        With the linear schedule, times 1 - (t - 1) / T.
        """
        config = self.config
        rate = config.lr * config.lr_decay ** (self.loader.epoch // config.decay_epochs)
        if config.schedule == "linear":
            rate *= 1 - (self.loader.step - 1) / config.steps
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _evaluate(self, step: int) -> Evaluation:
        """F1 of training and validation nodes; keeps the best weights."""
        sampled = self.config.validation == "sampled"
        scores = (self.evaluate_sampled if sampled else self.evaluate)(("train", "val"))
        self.val_f1 = scores["val"]
        evaluation = Evaluation(
            step=step,
            loss=self.losses[0] / max(self.losses[1], 1.0),
            train_f1=scores["train"],
            val_f1=scores["val"],
        )
        self.folder.add_metrics(evaluation)
        self.folder.add_times(StepTime(step=step, seconds=self.step_seconds))
        self.losses = [0.0, 0.0]
        self.stale += 1
        if scores["val"] > self.best["val_f1"]:
            self.best, self.stale = {"step": step, "val_f1": scores["val"]}, 0
            self.folder.save_best(self.model.state_dict())
        return evaluation

    def evaluate(self, splits: tuple[str, ...]) -> dict[str, float]:
        """Micro-F1 by split, with the weights as they are."""
        logits = self.logits()
        found = {}
        for name in splits:
            nodes = self.dataset.splits[name]
            found[name] = micro_f1(logits[nodes], self.dataset.y[nodes])
        return found

    @torch.no_grad()
    def evaluate_sampled(self, splits: tuple[str, ...]) -> dict[str, float]:
        """Micro-F1 by split from sampled neighbourhoods, with the weights as they are."""
        self.model.eval()
        found = {}
        for name in splits:
            nodes, logits = self.dataset.splits[name], []
            for number, seeds in enumerate(torch.split(nodes, self.config.batch_size)):
                blocks = self.sampler.sample(seeds, Stream.EVALUATION + number)
                x = self.x.index_select(0, blocks[0].src).to(self.device)
                moved = [block.to(self.device) for block in blocks]
                logits.append(self.model(x, moved).float().cpu())
            found[name] = micro_f1(torch.cat(logits), self.dataset.y[nodes])
        return found

    def logits(self) -> Tensor:
        """Logits of all nodes from full neighbourhoods. [V, C]."""
        return infer(self.model, self.graph, self.x, device=self.device)

    @cached_property
    def fingerprint(self) -> str:
        """What tells this data from other data, for those who resume."""
        return fingerprint(self.dataset)

    def _is_patience_spent(self) -> bool:
        return 0 < self.config.patience <= self.stale

    def _begin(self, resume: bool) -> None:
        folder, config = self.folder, self.config
        if folder.is_started:
            if not resume:
                raise InputError(
                    f"out={str(folder.path)!r} holds a run already: pass --resume to go on with "
                    "it, or choose another folder."
                )
            folder.check_settings(config)
            checkpoint = folder.load_checkpoint(self.say)
            if checkpoint is not None:
                self._restore(checkpoint)
                self.say(f"Resuming after step {self.loader.step}.")
        else:
            if resume:
                self.say(f"There is no run in {str(folder.path)!r} to resume: starting one.")
            folder.write_json("config.json", config.to_dict())
        folder.forget_metrics_after(self.loader.step)

    def _checkpoint(self, step: int) -> None:
        tensors = {f"model.{name}": t for name, t in self.model.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": t for name, t in state.items()}
        tensors |= {f"sampler.{name}": t for name, t in self.sampler.state_dict().items()}
        tensors |= {f"times.{part}": torch.tensor(taken) for part, taken in self.times.items()}
        counters = {
            "data": self.fingerprint,
            "loader": self.loader.state_dict(),
            "best": self.best,
            "stale": self.stale,
            "losses": self.losses,
            "val_f1": self.val_f1,
            "seconds": self.seconds,
            "step_seconds": self.step_seconds,
            "sampled": self.sampled,
        }
        self.folder.save_checkpoint(step, Checkpoint(tensors, counters))

    def _restore(self, checkpoint: Checkpoint) -> None:
        parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for name, tensor in checkpoint.tensors.items():
            part, rest = name.split(".", 1)
            parts[part][rest] = tensor
        counters = checkpoint.counters
        if counters["data"] != self.fingerprint:
            raise InputError(
                f"dataset={self.config.dataset!r} is not as it was when the run in "
                f"{str(self.folder.path)!r} was started: bring the same data (and --root), or "
                "start a run in another folder."
            )
        try:
            self.model.load_state_dict(parts["model"])
            state: dict[int, dict[str, Tensor]] = {}
            for name, tensor in parts["optimizer"].items():
                number, key = name.split(".")
                state.setdefault(int(number), {})[key] = tensor
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": state, "param_groups": groups})
            self.sampler.load_state_dict(parts["sampler"])
        except (RuntimeError, KeyError, ValueError) as error:
            raise DamagedError(
                f"the checkpoint in {str(self.folder.path)!r} does not fit the network "
                f"({_in_short(error)}): was it written by another version of bliss? Start the run "
                "anew."
            ) from error
        self.times = {part: parts["times"][part].tolist() for part in PARTS}
        self.loader.load_state_dict(counters["loader"])
        self.best, self.stale = counters["best"], counters["stale"]
        self.losses, self.val_f1 = counters["losses"], counters["val_f1"]
        self.seconds, self.step_seconds = counters["seconds"], counters["step_seconds"]
        self.sampled = counters["sampled"]

    def load_best(self) -> None:
        """Give the network the weights of the run's best step."""
        weights = self.folder.load_best()
        try:
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            raise DamagedError(
                f"the weights in {str(self.folder.path)!r} do not fit the data and network "
                f"({_in_short(error)}): was the data, or the version of bliss, changed? Train anew."
            ) from error

    def _finish(self) -> RunResult:
        """Evaluate the best weights on all splits and write the result."""
        self.load_best()
        scores = self.evaluate(("train", "val", "test"))
        config = self.config
        medians = {part: median(taken) * 1e3 for part, taken in self.times.items() if taken}
        nodes, edges = (count / max(self.loader.step, 1) for count in self.sampled)
        result = RunResult(
            dataset=config.dataset,
            model=config.model,
            sampler=config.sampler,
            policy=config.policy,
            seed=config.seed,
            steps=self.loader.step,
            best_step=int(self.best["step"]),
            train_f1=scores["train"],
            val_f1=scores["val"],
            test_f1=scores["test"],
            seconds=self.seconds,
            step_ms=medians,
            sampled=Sampled(nodes=nodes, edges=edges),
            peak_mb=peak_mb(self.device),
        )
        self.folder.write_result(result)
        return result


def _check(config: TrainConfig, dataset: Dataset) -> None:
    if dataset.num_classes == 0:
        raise InputError(
            f"{dataset.name!r} has no labels, and training needs them: import it with --labels."
        )
    for name in ("train", "val", "test"):
        if name not in dataset.splits or len(dataset.splits[name]) == 0:
            raise InputError(
                f"the {name} split of {dataset.name!r} is empty, and training needs all three: "
                "import the graph with train, validation and test nodes."
            )
    if config.device.startswith("cuda") and not torch.cuda.is_available():
        raise ResourceError(f"device={config.device!r} was asked for, but torch sees no GPU.")


def _in_short(error: Exception) -> str:
    """The first thing that torch complains of, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[min(1, len(lines) - 1)].rstrip(".:") if lines else type(error).__name__


def _row_normalised(x: Tensor) -> Tensor:
    """Each row divided by its sum where that is above 1, as PyG's `NormalizeFeatures`. [V, F]."""
    return x / x.sum(dim=1, keepdim=True).clamp(min=1.0)


def _torch_seed(seed: int, *counters: int) -> int:
    return int(derive_key(seed, *counters)) >> 1  # torch takes 63 bits


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying in the middle of a step."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {n: signal.signal(n, lambda number, _frame: caught.append(number)) for n in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _with_norm(graph: Graph, config: TrainConfig) -> Graph:
    """The coefficients of the network; SAGE keeps the weights that a person's own edges carry."""
    if graph.norm == "weights" and config.model == "sage":
        return graph
    return graph.with_norm(config.model_config.norm)
