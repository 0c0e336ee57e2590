"""A pilot in a given time: one network, trained for a moment, on which samplers are measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import mean, median, stdev
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bliss.errors import DivergedError
from bliss.nn.inference import LayerSurvey, infer
from bliss.nn.layers import OnProgress
from bliss.train.batch import NodeData
from bliss.train.config import TrainConfig
from bliss.train.constant import is_beaten
from bliss.train.evaluation import evaluate
from bliss.train.results import Constant
from bliss.train.seconds.expected_time import ExpectedTime
from bliss.train.seconds.gradient_noise import NoiseModel, Point, Size, relative_error
from bliss.train.seconds.kinds import Kind
from bliss.train.step import Stepper
from bliss.train.task import Task

WARM_UP, EVALUATION, REFERENCE, MEASURED = 0.3, 0.3, 0.1, 0.9
"""Shares of a pilot: of training; of an evaluation at most; of the gradient that others are
compared with; and the share after which only the choice is timed."""
LEAST_STEPS = 4
"""Least number of training steps before the evaluation, and after it."""
DRAWS, MOST_DRAWS, SHARE = 2, 8, 0.015
"""Draws of a measurement, besides the first one, which is not timed: more of fast steps, as many as
fit into a share of the pilot."""
CLEARLY = 3
"""Standard errors by which losses must be below that of a constant prediction."""
LEAST_AFTER = 2 + DRAWS + 1
"""Steps of the shortest pilot after training: reference and one measurement."""
LEAST_DRAWS = 2 * LEAST_STEPS + LEAST_AFTER
"""Steps of the shortest pilot."""
FIXED = {"schedule": "constant", "prefetch": 0, "lr_decay": 1.0, "steps": 10**18}
"""Settings of the pilot's steps."""
FAR = 10**9
"""Steps between those of different measurements."""
REFERENCES = 16
"""Largest number of batches whose gradients are the reference."""
REFERENCE_SIZE = 4
"""A reference without full neighbourhoods has this many times the first batches and budgets."""
BYTES_PER_SECOND = 3e8
"""Speed at which checkpoints are written, roughly."""
FLOOR = 0.01
"""Least sqrt(v_i) that counts, as a share of the mean: weights that never had a gradient."""
LEAST = 1e-3
"""Least |G|^2, as a share of the mean square of the reference's batches."""

Clock = Callable[[], float]


class Measured(NamedTuple):
    """Measurements of one size of one kind of sampler."""

    moments: list[float]  # |g^|^2
    projections: list[float]  # <G, g^>
    seconds: list[float]  # of steps but the first


class TooSlow(Exception):
    """An evaluation or a pilot that would take too long, and its expected seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class TimedPilot:
    """A network in training, and what each kind of sampler would do next.

    The first kind trains the network, by default with a history. The time begins after its first
    step. Halfway, an evaluation is timed, which is a survey, as in training. Then the weights stay
    fixed: each kind and size takes a few ordinary training steps with new batches and draws, whose
    times and gradients are measured, and the weights are put back after each.

    `gradient_noise` has the formulas. G is the mean over batches with full neighbourhoods or, where
    these take too long, over batches of the first kind with four times its budgets. |G|^2 is the
    mean product of different batches, because their squares include their noise.

    The first of the `kinds` trains. `task` has a new network, `clock` returns seconds.
    """

    def __init__(self, kinds: Mapping[str, Kind], task: Task, seconds: float, clock: Clock) -> None:
        self.kinds, self.seconds, self.clock = kinds, seconds, clock
        self.started = clock()
        self.teacher = next(iter(kinds.values()))
        first = self.teacher.first_sizes()[0]
        self.task = replace(task, config=self._config(self.teacher, first))
        self.steppers: dict[tuple[str, int], Stepper] = {}
        self.setup: dict[str, float] = {}  # seconds before the first step, by kind
        self.expected = ExpectedTime(self.teacher)
        self.measured: dict[tuple[str, Size], Measured] = {}
        self.surveys: list[LayerSurvey] = []
        self.evaluation_seconds = 0.0
        self.evaluated = 0.0  # seconds spent on evaluations, finished or not
        self.losses: list[float] = []
        self.constant: Constant | None = None
        self.has_learnt = False
        self._draw_number = 0

    @property
    def spent(self) -> float:
        """Share of the time that is spent."""
        return (self.clock() - self.started) / self.seconds

    def fits(self, kind: Kind, size: Size, until: float = MEASURED) -> bool:
        """Whether set-up and steps are expected to end before a share of the time.

        There are two steps, or one of a kind that was not timed, whose expected time is rough.
        """
        is_built = self._key(kind, size) in self.steppers
        steps = 2 if self.expected.has_steps(kind) else 1
        needed = steps * self.expected.step(kind, size)
        needed += 0.0 if is_built else self.expected.setup(kind)
        return self.spent + needed / self.seconds <= until

    @property
    def has_weights(self) -> bool:
        """Whether there are gradients to compare; LightGCN has none but of its embedding."""
        return any(one.requires_grad for one in self.task.model.parameters())

    def train(self) -> None:
        """Train, evaluate halfway, and see whether the network is better than a constant."""
        stepper = self._stepper(self.teacher, self.teacher.first_sizes()[0])
        batches, half = stepper.batches(), WARM_UP / 2
        self.losses.append(stepper.step(next(batches)))
        self.started = self.clock()  # kernels are loaded, or compiled after an installation
        self._train(stepper, batches, self.spent + half)
        limit = EVALUATION * self.seconds
        self._evaluate(stepper, limit)
        self._train(stepper, batches, self.spent + half)
        again = (LEAST_STEPS + LEAST_AFTER) * self._least / self.seconds
        if not self._learns() and self.spent + again <= 1:
            self._train(stepper, batches, self.spent + half)
            self._evaluate(stepper, min(limit, (1 - self.spent) * self.seconds))
        self.has_learnt = self._learns()
        self.expected.evaluation = self.evaluation_seconds
        model = self.task.model
        self.weights = {name: value.clone() for name, value in model.state_dict().items()}
        self.scale = self._scale(stepper)

    def _train(self, stepper: Stepper, batches: Iterator[Iterable[NodeData]], until: float) -> None:
        """Train until a share of the time is spent, at least LEAST_STEPS steps.

        Give up as soon as the shortest pilot is not expected to fit into the time.
        """
        first = self.teacher.first_sizes()[0]
        for number in itertools.count(1):
            before = self.clock()
            self.losses.append(stepper.step(next(batches)))
            self.expected.add_step(self.teacher, first, self.clock() - before)
            missing = max(LEAST_DRAWS - len(self.losses), LEAST_AFTER) * self._least
            if self.spent + missing / self.seconds > 1:
                steps = self.spent * self.seconds - self.evaluated + missing
                raise TooSlow(steps / (1 - EVALUATION))
            if number >= LEAST_STEPS and self.spent >= until:
                break

    @property
    def _least(self) -> float:
        """Seconds of the fastest step of training."""
        return self.expected.step(self.teacher, self.teacher.first_sizes()[0])

    def _learns(self) -> bool:
        """Whether validation nodes or links, or the latest seeds seen first, beat a constant.

        The loss of a batch is that of the network before it has learnt from the batch. In the first
        epoch it is therefore a loss of seeds that are new to the network, as validation is; and it
        does not depend on running averages, such as those of batch normalisation, which are still
        far off after a few steps. Their mean must be below the constant's loss by CLEARLY standard
        errors.
        """
        if self.constant is not None and is_beaten(self.constant):
            return True
        batch = self.task.config.training.batch_size
        new = self.losses[: self.task.objective.num_seeds // batch]
        latest = new[-max(LEAST_STEPS, len(new) // 4) :]
        if len(latest) < LEAST_STEPS:
            return False
        error = stdev(latest) / len(latest) ** 0.5
        return bool(mean(latest) + CLEARLY * error < self.task.objective.constant_loss)

    def _evaluate(self, stepper: Stepper, limit: float) -> None:
        """Time an evaluation, and keep what it shows of the layers; give up if it takes long."""
        task, started, surveys = self.task, self.clock(), list[LayerSurvey]()

        def check(share: float) -> None:
            taken = self.clock() - started
            if share == 0:  # within the first chunk
                return
            if taken / share > limit and 2 * taken > limit:  # wide layers come first
                raise TooSlow(taken / share)

        try:
            if task.config.training.evaluate == "full" and task.objective.is_survey:
                outputs = self._survey(check, surveys)
                for split in ("train", "val"):
                    nodes = task.objective.nodes(split)
                    own = outputs if nodes is None else outputs[nodes]
                    task.objective.scores(split, nodes, own)
                self.evaluation_seconds = self.clock() - started
                self.constant = task.objective.assess("val", nodes, own).constant
            else:
                evaluate(task, ("train", "val"), check)
                self.evaluation_seconds = self.clock() - started
        except TooSlow as slow:
            self.evaluation_seconds = slow.seconds
            return
        finally:
            self.evaluated += self.clock() - started
            task.model.train()
        self.surveys = surveys
        if surveys and stepper.sampler.learns_from_surveys:
            stepper.sampler.learn_survey(surveys)

    def _survey(self, check: OnProgress, surveys: list[LayerSurvey]) -> Tensor:
        """Outputs at all nodes; what the layers show is kept if training learns from it, too."""
        task = self.task
        keeps = task.config.training.survey
        observer = (lambda _, survey: surveys.append(survey)) if keeps else None
        of_task = task.model, task.graph, task.everywhere()
        outputs: Tensor = infer(*of_task, device=task.device, progress=check, observer=observer)
        return outputs

    def refer(self) -> None:
        """Compute the reference G from independent batches, and |G|^2. float64[P].

        They are the largest batches of which two fit into half of the time that is left.
        """
        first, until = self.teacher.first_sizes()[0], self.spent + REFERENCE
        batch = min(2 * first.batch_size, self.task.objective.num_seeds)
        wanted = [(self.teacher, Size(batch, REFERENCE_SIZE * first.budget)), (self.teacher, first)]
        if "full" in self.kinds:
            wanted.insert(0, (self.kinds["full"], Size(batch)))
        half = (1 + self.spent) / 2
        fitting = [(kind, size) for kind, size in wanted if self.fits(kind, size, half)]
        draws = self._draws(*(fitting or wanted[-1:])[0])
        found: list[Tensor] = []
        while len(found) < 2 or (len(found) < REFERENCES and self.spent < until):
            taken, gradient = next(draws)
            found.append(gradient)
            if taken > (1 - self.spent) * self.seconds / 2:  # slower than expected
                draws = self._draws(self.teacher, first)
        number, stacked = len(found), torch.stack(found)  # [n, P]
        self.mean = stacked.mean(0)
        squares = float((stacked.square() @ self.scale).sum())
        total = number**2 * float(self.mean.square() @ self.scale)
        self.square = max((total - squares) / (number * (number - 1)), LEAST * squares / number)

    def measure(
        self, kind: Kind, size: Size, until: float = MEASURED, *, must: bool = False
    ) -> bool:
        """Compute some more gradients of a size, until a share of the time at most.

        Fewer are computed if the time is over, and none if the set-up or a step does not fit into
        it. Returns whether there are any. With `must`, at least two steps are taken in any case.
        """
        if not must and not self.fits(kind, size, until):
            return False
        is_new = self._key(kind, size) not in self.steppers
        self._stepper(kind, size)
        if not must and not self.fits(kind, size, until):  # the set-up took longer than expected
            return False
        own, enough = Measured([], [], []), self.spent + SHARE
        first = 0.0
        for number, (taken, gradient) in enumerate(self._draws(kind, size)):
            own.moments.append(float(gradient.square() @ self.scale))
            own.projections.append(float((gradient * self.mean) @ self.scale))
            self.expected.add_step(kind, size, taken)
            if number > 0:  # seeds are shuffled and kernels are loaded in the first
                own.seconds.append(taken)
            else:
                first = taken
            is_over = self.spent + taken / self.seconds > until
            is_enough = number >= MOST_DRAWS or (number >= DRAWS and self.spent > enough)
            if is_enough or (is_over and (number > 0 or not must)):
                break
        self.expected.learn_factor(kind, size)
        if not own.seconds:
            return False
        if is_new and kind.form == "subgraph":  # a partition or counts come with the first batch
            self._add_setup(kind, max(first - median(own.seconds), 0.0))
        stored = self.measured.setdefault((kind.name, size), Measured([], [], []))
        for all_, new in zip(stored, own, strict=True):
            all_.extend(new)
        return True

    def points(self) -> list[Point]:
        """What was measured so far."""
        return [
            Point(
                kind,
                size,
                1e3 * median(own.seconds),
                relative_error(self.square, mean(own.moments), mean(own.projections)),
                len(own.moments),
            )
            for (kind, size), own in self.measured.items()
        ]

    def model(self) -> NoiseModel:
        """The models of error and time, fitted to what was measured."""
        return NoiseModel(self.points(), {name: kind.form for name, kind in self.kinds.items()})

    def step_seconds(self, kind: Kind, size: Size) -> float:
        """Mean seconds of a step, without those that took twice the median."""
        seconds = self.measured[kind.name, size].seconds
        return mean([one for one in seconds if one <= 2 * median(seconds)])

    def checkpoint_seconds(self, kind: Kind, size: Size) -> float:
        """Seconds of a checkpoint, from the bytes of weights, Adam's moments and what is learnt."""
        numbers = 3 * sum(one.numel() for one in self.task.model.parameters())
        embedding, state = self.task.embedding, self._stepper(kind, size).sampler.state_dict()
        numbers += 0 if embedding is None else 3 * embedding.value.numel()
        learnt = sum(one.numel() * one.element_size() for one in state.values())
        return (4 * numbers + learnt) / BYTES_PER_SECOND

    def _draws(self, kind: Kind, size: Size) -> Iterator[tuple[float, Tensor]]:
        """Seconds and gradients of steps from the fixed weights, with new batches and coins."""
        stepper, model = self._stepper(kind, size), self.task.model
        self._draw_number += 1
        start = FAR * self._draw_number  # other epochs and steps than any before
        stepper.loader.load_state_dict({"epoch": start, "batch": 0, "step": start})
        batches = stepper.batches()
        while True:
            model.load_state_dict(self.weights)
            started = self.clock()
            try:
                stepper.step(next(batches))
            except DivergedError:  # a gradient that leads nowhere
                yield self.clock() - started, torch.full_like(self.scale, torch.inf)
                continue
            if self.task.device.type == "cuda":
                torch.cuda.synchronize(self.task.device)
            taken = self.clock() - started
            yield taken, self._flat(lambda one: one.grad)

    def _flat(self, part: Callable[[Tensor], Tensor | None]) -> Tensor:
        """Something of every weight, such as its gradient, in one vector. float64[P]."""
        found = []
        for weight in self.task.model.parameters():
            if weight.requires_grad:
                own = part(weight)
                own = torch.zeros_like(weight) if own is None else own
                found.append(own.detach().double().cpu().flatten())
        return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)

    @staticmethod
    def _key(kind: Kind, size: Size) -> tuple[str, int]:
        """What identifies a stepper: a sampler of subgraphs has one batch size."""
        return kind.name, size.batch_size if kind.form == "subgraph" else 0

    def _stepper(self, kind: Kind, size: Size) -> Stepper:
        """The stepper of a kind, with this batch size and these budgets."""
        key = self._key(kind, size)
        if (stepper := self.steppers.get(key)) is None:
            started = self.clock()
            config = self._config(kind, size)
            stepper = Stepper(replace(self.task, config=config))
            self._teach(stepper)
            self.steppers[key] = stepper
            self.setup[kind.name] = 0.0
            self._add_setup(kind, self.clock() - started)
        if kind.form != "subgraph":
            budgets = self._config(kind, size).sampler.numbers
            if stepper.sampler.budgets != budgets:
                stepper.sampler.budgets = budgets
            if stepper.loader.batch_size != size.batch_size:
                stepper.loader = stepper.build_loader(size.batch_size)
        return stepper

    def _add_setup(self, kind: Kind, seconds: float) -> None:
        """Add seconds to those before the first step of a kind."""
        self.setup[kind.name] += seconds
        self.expected.add_setup(kind, self.setup[kind.name])

    def _teach(self, stepper: Stepper) -> None:
        """Let a new sampler learn what it would have learnt: the survey, or the first history."""
        sampler = stepper.sampler
        teacher = self.steppers.get((self.teacher.name, 0))
        if sampler.history is not None and teacher is not None:
            known = teacher.sampler.history
            if known is not None and _same(known.state_dict(), sampler.history.state_dict()):
                sampler.history.load_state_dict(known.state_dict())
                return
        if self.surveys and sampler.learns_from_surveys:
            sampler.learn_survey(self.surveys)

    def _config(self, kind: Kind, size: Size) -> TrainConfig:
        return kind.at(size).with_settings(**FIXED)

    def _scale(self, stepper: Stepper) -> Tensor:
        """1 / sqrt(v_i) from Adam's second moments. float64[P]."""
        state = stepper.optimizer.state
        root = self._flat(lambda one: state.get(one, {}).get("exp_avg_sq")).sqrt()
        least = FLOOR * float(root.mean()) if root.numel() else 0.0
        return 1 / root.clamp(min=max(least, 1e-30))


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states have the same names and shapes."""
    return {k: v.shape for k, v in one.items()} == {k: v.shape for k, v in other.items()}
