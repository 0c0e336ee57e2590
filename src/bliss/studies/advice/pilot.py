"""A short pilot: one trained network, on which errors, gradients and times are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np
from torch import Tensor

from bliss.arrays import FloatArray
from bliss.data import Dataset
from bliss.loader.seeds import draw_blocks
from bliss.nn.block import Block
from bliss.rng import Stream
from bliss.samplers import Sampler
from bliss.studies.advice.budgets import Budgets
from bliss.studies.advice.costs import LayerWork, Work, count, mean_work
from bliss.studies.advice.exact_errors import ExactErrors, LayerError
from bliss.studies.gradients import full_gradients, gradient, shares_sources, training_batch
from bliss.train import Stepper, Task, TrainConfig, assess, build_task
from bliss.train.divergence import DivergenceMonitor

BATCHES, SEEDS = 6, 1024
"""A measurement uses enough batches for SEEDS seeds, at least BATCHES and at most 4 BATCHES."""
HALF = 0.5
"""Share of its first value to which the loss may fall before errors are measured."""
FITTED = 0.1
"""Share of its first value below which a loss shows that the training seeds are fitted."""
LONGER = 240
"""Least number of steps after which a network that has learnt nothing is given up."""
SMOOTH = 3
"""Number of consecutive losses that are averaged before they are compared."""
EXPECTED_BATCHES = 2
"""Batches of each expected error."""
TIMED_STEPS = 7
"""Steps of each measurement of time, of which the median counts."""


@dataclass(frozen=True)
class Noise:
    """Gradients of batches with full neighbourhoods."""

    gradients: Tensor  # [batches, P]

    @cached_property
    def square(self) -> float:
        """Mean of |g|^2 over batches."""
        return float(self.gradients.square().sum(1).mean())

    @cached_property
    def batch(self) -> float:
        """Variance of g between batches; 0 if a batch has all training seeds."""
        mean = self.gradients.mean(0)
        return float((self.gradients - mean).square().sum()) / (len(self.gradients) - 1)


class Pilot:
    """A network after a few steps of training, whose weights stay fixed from then on.

    If the loss falls below HALF of its first value before the last step, the pilot is repeated and
    ends there: once a network has fitted its training seeds, the gradient vanishes, and an error
    relative to it is meaningless. The first value counts as at most that of a constant prediction,
    because unscaled features start anywhere.

    If the network is no better than a constant prediction on the validation split after the last
    step, the pilot is repeated with four times as many steps, at least LONGER.

    The training surveys the network half of `evaluate_every` steps before its end (at most half of
    its steps), so that a history is as old as it is on average between two evaluations.

    Gradients are those of `bliss.studies.gradients`, in evaluation mode.

    `config` has the sampler that trains, `steps` is the largest number of steps.
    """

    task: Task
    stepper: Stepper

    def __init__(self, config: TrainConfig, dataset: Dataset, steps: int) -> None:
        # each shard is a batch with these budgets
        self.settings: dict[str, Any] = {"schedule": "constant", "prefetch": 0, "shards": 1}
        self.losses = self._train(config, dataset, steps)
        self.assessment = assess(self.task, ("val",))
        if not self.assessment.has_learnt:
            steps = max(4 * steps, LONGER)
            self.losses = self._train(config, dataset, steps)
            self.assessment = assess(self.task, ("val",))
        self.constant_loss = DivergenceMonitor(self.task).constant_loss
        self.steps = first_below(self.losses, HALF, self.constant_loss)
        if self.steps < steps:
            self._train(config, dataset, self.steps)
        model = self.task.model.eval()
        self.weights = _copy(model.state_dict())
        table = self.task.embedding
        self.rows = {} if table is None else _copy(table.state_dict())
        number = min(max(BATCHES, SEEDS // config.training.batch_size), 4 * BATCHES)
        self.batches = [training_batch(self.task, 0, place) for place in range(number)]

    @cached_property
    def exact(self) -> ExactErrors:
        """Errors of the layers in closed form, on the network with `weights`."""
        return ExactErrors(self.task.model, self.task.graph, self.task.everywhere())

    @cached_property
    def noise(self) -> Noise:
        """Gradients of the batches."""
        return Noise(full_gradients(self.task, self.batches))

    @cached_property
    def shared(self) -> Noise:
        """Gradients of the batches with all sources, shared in time as layer-wise samplers do."""
        return Noise(full_gradients(self.task, self.batches, is_shared=True))

    @property
    def sharing_error(self) -> float:
        """|g' - g|^2 / |g|^2 of gradients g' with shared sources and g with trees of their own."""
        difference = self.shared.gradients - self.noise.gradients
        return float(difference.square().sum(1).mean()) / max(self.noise.square, 1e-300)

    @property
    def is_fitted(self) -> bool:
        """Whether the loss fell below FITTED of its first value: the training seeds are fitted."""
        return falls_below(self.losses, FITTED, self.constant_loss)

    def _train(self, config: TrainConfig, dataset: Dataset, steps: int) -> list[float]:
        """Train a new network; returns the loss of each step."""
        self.settings["steps"] = steps
        self.task = build_task(config.with_settings(**self.settings), dataset)
        self.stepper = Stepper(self.task)
        age = min(steps, config.training.evaluate_every) // 2
        losses = []
        for batch in self.stepper.batches():
            losses.append(self.stepper.step(batch))
            if self.stepper.steps == steps - age and self._surveys(self.stepper.sampler):
                x = self.task.everywhere()
                self.stepper.sampler.survey(self.task.model, x, device=self.task.device)
        return losses

    def sampler(self, config: TrainConfig) -> Sampler:
        """A sampler as it is in training: the one that trained, or a new one after a survey."""
        if config.sampler.config == self.task.config.sampler.config:
            return self.stepper.sampler
        made = self._stepper(config).sampler
        if self._surveys(made):
            made.learn_survey(self.exact.surveys)
        return made

    def _surveys(self, sampler: Sampler) -> bool:
        """Whether evaluations during training survey the network for this sampler."""
        config = self.task.config.training
        is_survey = config.evaluate == "full" and self.task.objective.is_survey
        return sampler.learns_from_surveys and config.survey and is_survey

    def gradient_error(self, sampler: Sampler, budgets: Budgets, first: int = 0) -> float:
        """Measured r: mean of |g^ - g|^2 over batches, over that of |g|^2.

        With times, g of a layer-wise sampler is that of all sources that it may share.
        """
        noise = self.shared if shares_sources(self.task, sampler) else self.noise
        with with_budgets(sampler, budgets):
            errors = [
                float((gradient(self.task, sampler, seeds, first + number) - exact).square().sum())
                for number, (seeds, exact) in enumerate(
                    zip(self.batches, noise.gradients, strict=True)
                )
            ]
        return sum(errors) / len(errors) / max(noise.square, 1e-300)

    def expected(
        self,
        sampler: Sampler,
        budgets: Budgets,
        changes: Sequence[FloatArray] | None,
        number: int = EXPECTED_BATCHES,
    ) -> tuple[list[float], list[LayerWork]]:
        """Relative error of each layer in closed form, and the work of a step."""
        errors: list[list[LayerError]] = []
        works: list[Work] = []
        with with_budgets(sampler, budgets):
            for place, seeds in enumerate(self.batches[:number]):
                blocks = draw_blocks(sampler, seeds, Stream.MEASUREMENT + place)
                errors.append(self.exact.of(sampler, blocks, changes, seeds.without))
                works.append(self._count(blocks))
        total = [LayerError(*np.sum(layer, axis=0)) for layer in zip(*errors, strict=True)]
        return [float(layer.relative) for layer in total], mean_work(works)

    def times(
        self, config: TrainConfig, settings: Sequence[Budgets]
    ) -> tuple[list[float], list[Work]]:
        """Median milliseconds of training steps with each of the budgets, and their work.

        Steps of different budgets alternate, so that a slower moment of the machine slows all. The
        network trains meanwhile; its weights are restored.
        """
        stepper = self._stepper(config)
        ms: list[list[float]] = [[] for _ in settings]
        works: list[list[Work]] = [[] for _ in settings]
        batches = stepper.batches()
        for number in range(TIMED_STEPS + 1):
            for place, budgets in enumerate(settings):
                stepper.sampler.budgets = budgets
                (batch,) = next(batches)
                stepper.step([batch])
                if number > 0:  # kernels are compiled and memory is allocated in the first round
                    ms[place].append(stepper.times["total"][-1] * 1e3)
                    works[place].append(self._count(batch.blocks))
        self.task.model.load_state_dict(self.weights)
        if self.task.embedding is not None:
            self.task.embedding.load_state_dict(self.rows)
        return list(map(median, ms)), [mean_work(each) for each in works]

    def _stepper(self, config: TrainConfig) -> Stepper:
        lasting = config.with_settings(**self.settings | {"steps": 10**9})
        return Stepper(replace(self.task, config=lasting))

    def _count(self, blocks: Sequence[Block]) -> list[LayerWork]:
        return count(self.task.graph, blocks, self.task.model.widths)


def first_below(losses: Sequence[float], share: float, most: float = np.inf) -> int:
    """Steps after which the loss was below a share of its first value, or all of them.

    Means over SMOOTH steps are compared; the first value counts as at most `most`.
    """
    means = _smooth(losses)
    below = np.flatnonzero(means < share * min(means[0], most))
    return int(below[0]) + len(losses) - len(means) + 1 if below.size else len(losses)


def falls_below(losses: Sequence[float], share: float, most: float = np.inf) -> bool:
    """Whether the loss ever was below a share of its first value, at most that of `most`."""
    means = _smooth(losses)
    return bool((means < share * min(means[0], most)).any())


def _smooth(losses: Sequence[float]) -> FloatArray:
    """Means of SMOOTH consecutive losses, or of all if there are fewer."""
    width = min(SMOOTH, len(losses))
    return np.convolve(losses, np.full(width, 1 / width), "valid")


def _copy(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}


@contextmanager
def with_budgets(sampler: Sampler, budgets: Budgets) -> Iterator[None]:
    """Context manager that draws with other budgets, from the same policy and history."""
    own, sampler.budgets = sampler.budgets, budgets
    try:
        yield
    finally:
        sampler.budgets = own
