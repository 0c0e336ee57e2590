"""The training loop: steps, evaluations and checkpoints in a run's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from torch import Tensor

from bliss import checks
from bliss.data import Dataset
from bliss.errors import DamagedError, InputError
from bliss.train.checkpoints import Progress, capture, in_short, restore
from bliss.train.config import TrainConfig
from bliss.train.evaluation import evaluate, evaluate_sampled
from bliss.train.folder import RunFolder, settings_digest
from bliss.train.memory import forget_peak, peak_mb
from bliss.train.metrics import TargetScale
from bliss.train.records import F1, Evaluation, RunResult, StepTime, short_name
from bliss.train.signals import Interrupted, Signals, catch_signals
from bliss.train.step import Learner
from bliss.train.task import Task, build_task

_TARGETS = "targets."  # before the names of a scale among the weights of a run


class Standing(NamedTuple):
    """Progress of a run, reported after each step."""

    step: int
    steps: int
    loss: float
    evaluated: int  # step of the last evaluation; 0 before the first
    val_f1: float  # validation score of that evaluation
    metric: str = F1  # name of the score


class Trainer:
    """One run in one folder.

    A run resumed from a checkpoint ends with the same weights, policy state and metrics, bit for
    bit, as one that was never stopped.

    Parameters
    ----------
    config
        The settings.
    dataset
        The data set.
    out
        The run's folder.
    say
        Function called with each message.
    """

    def __init__(
        self, config: TrainConfig, dataset: Dataset, out: str | Path, say: Callable[[str], None]
    ) -> None:
        self.task = build_task(config, dataset)
        self.config = self.task.config
        self.learner = Learner(self.task)
        self.folder = RunFolder(checks.path("out", out))
        self.progress = Progress()
        self.say = say

    def run(
        self,
        resume: bool = False,
        on_step: Callable[[Standing], None] | None = None,
        on_evaluation: Callable[[Evaluation], None] | None = None,
    ) -> RunResult:
        """Train to the end and return the result."""
        with self.folder.locked(), catch_signals() as signals:
            forget_peak(self.task.device)
            self._begin(resume)
            started = perf_counter() - self.progress.seconds
            self._repeat_evaluation(signals, on_evaluation)
            for batch in self.learner.batches(self._is_patience_spent):
                loss = self.learner.learn(batch)
                self.progress.seconds = perf_counter() - started
                self._evaluate_if_due(signals, on_evaluation)
                if on_step:
                    on_step(self._standing(loss))
                if signals.number is not None and self.learner.steps < self.config.steps:
                    if self.progress.evaluated != self.learner.steps:
                        self._checkpoint()
                    signals.check()
            return self._finish(signals)

    def _begin(self, resume: bool) -> None:
        folder, config = self.folder, self.config
        folder.refuse_strays()
        if folder.is_started:
            if not resume:
                raise InputError(
                    f"out={str(folder.path)!r} already holds a run: pass --resume to continue it, "
                    "or choose another folder."
                )
            folder.check_settings(config, may_extend=True)
            self._resume()
        elif resume:
            self.say(f"There is no run to resume in {str(folder.path)!r}; starting a new one.")
        folder.remove_leftovers()
        folder.write_settings(config)
        folder.forget_after(self.learner.steps, self.progress.evaluated)

    def _resume(self) -> None:
        checkpoint = self.folder.load_checkpoint(self.say)
        if checkpoint is None:
            return
        if checkpoint.counters.get("settings") != settings_digest(self.config.to_dict()):
            raise DamagedError(
                f"the checkpoints in {str(self.folder.path)!r} belong to other settings than those "
                "in config.json: restore the files of one run, or start a run in another folder."
            )
        if checkpoint.counters.get("data") != self.task.dataset.fingerprint:
            raise InputError(
                f"dataset={self.config.dataset!r} has changed since the run in "
                f"{str(self.folder.path)!r} was started: restore the same data (check --root), or "
                "start a run in another folder."
            )
        self.progress = restore(checkpoint, self.learner)
        self.say(f"Resuming after step {self.learner.steps}.")

    def _repeat_evaluation(
        self, signals: Signals, on_evaluation: Callable[[Evaluation], None] | None
    ) -> None:
        """Repeat an interrupted evaluation of a resumed run.

        With prefetch=1 the next batch was already drawn then, so that it must not see the survey.
        """
        ahead = self.learner.sampler.drawing_ahead() if self.config.prefetch else nullcontext()
        with ahead:
            self._evaluate_if_due(signals, on_evaluation)

    def _evaluate_if_due(
        self, signals: Signals, on_evaluation: Callable[[Evaluation], None] | None
    ) -> None:
        """Evaluate and write a checkpoint every `evaluate_every` steps and after the last step.

        A signal interrupts a long evaluation, which is repeated when the run is resumed.
        """
        step = self.learner.steps
        is_due = step % self.config.evaluate_every == 0 or step == self.config.steps
        if not is_due or step == self.progress.evaluated:
            return
        try:
            scores = self._scores(signals)
        except Interrupted:
            self._checkpoint()
            raise
        found = self._record(step, scores)
        self._checkpoint()
        if on_evaluation:
            on_evaluation(found)

    def _scores(self, signals: Signals) -> dict[str, float]:
        splits = ("train", "val")
        if self.config.validation == "sampled":
            return evaluate_sampled(self.task, self.learner.sampler, splits, signals.check)
        # The evaluation after the last step teaches nothing, so that a run may be extended.
        is_regular = self.learner.steps % self.config.evaluate_every == 0
        student = self.learner.sampler if self.config.survey and is_regular else None
        return evaluate(self.task, splits, signals.check, student=student)

    def _record(self, step: int, scores: dict[str, float]) -> Evaluation:
        """Write an evaluation's metrics; save the weights if it is the best so far."""
        progress, learner = self.progress, self.learner
        found = Evaluation(
            step=step,
            loss=learner.mean_loss(),
            train_f1=scores["train"],
            val_f1=scores["val"],
            metric=self.task.metric,
            train_mse=scores.get("train_mse"),
            val_mse=scores.get("val_mse"),
        )
        self.folder.add_metrics(found)
        self.folder.add_times(StepTime(step=step, seconds=learner.step_seconds))
        progress.evaluated, progress.val_f1 = step, found.val_f1
        progress.stale += 1
        if found.val_f1 > progress.best_val_f1:
            progress.best_step, progress.best_val_f1, progress.stale = step, found.val_f1, 0
            self.folder.save_best(best_weights(self.task))
        return found

    def _checkpoint(self) -> None:
        checkpoint = capture(self.learner, self.progress)
        self.folder.save_checkpoint(self.learner.steps, checkpoint)

    def _is_patience_spent(self) -> bool:
        return 0 < self.config.patience <= self.progress.stale

    def _standing(self, loss: float) -> Standing:
        progress = self.progress
        return Standing(
            self.learner.steps,
            self.config.steps,
            loss,
            progress.evaluated,
            progress.val_f1,
            self.task.metric,
        )

    def _finish(self, signals: Signals) -> RunResult:
        """Evaluate the best weights once, on all splits, and write the result."""
        config, learner, progress = self.config, self.learner, self.progress
        if learner.steps < config.steps:
            score = short_name(self.task.metric)
            self.say(
                f"Stopped early at step {learner.steps}: no better validation {score} in "
                f"{progress.stale} evaluations (--patience {config.patience})."
            )
        load_weights(self.task, self.folder.load_best(), self.folder)
        scores = evaluate(self.task, ("train", "val", "test"), signals.check)
        result = RunResult(
            dataset=config.dataset,
            model=config.model,
            sampler=config.sampler,
            policy=config.policy,
            seed=config.seed,
            steps=learner.steps,
            best_step=progress.best_step,
            train_f1=scores["train"],
            val_f1=scores["val"],
            test_f1=scores["test"],
            seconds=progress.seconds,
            step_ms=learner.step_ms(),
            sampled=learner.mean_sampled(),
            peak_mb=peak_mb(self.task.device),
            metric=self.task.metric,
            train_mse=scores.get("train_mse"),
            val_mse=scores.get("val_mse"),
            test_mse=scores.get("test_mse"),
        )
        self.folder.write_result(result)
        return result


def best_weights(task: Task) -> dict[str, Tensor]:
    """Weights of the network, with the scale of the targets of a regression."""
    weights = dict(task.model.state_dict())
    if task.scale is not None:
        weights |= {f"{_TARGETS}{name}": one for name, one in task.scale._asdict().items()}
    return weights


def load_weights(task: Task, weights: Mapping[str, Tensor], folder: RunFolder) -> Task:
    """Load weights from a run's folder into the network; returns the task with their scale."""
    own = {name: one for name, one in weights.items() if not name.startswith(_TARGETS)}
    try:
        task.model.load_state_dict(own)
        if task.scale is None:
            return task
        scale = TargetScale(*(weights[f"{_TARGETS}{name}"] for name in TargetScale._fields))
    except (RuntimeError, KeyError) as error:
        raise DamagedError(
            f"the weights in {str(folder.path)!r} do not fit the data and network "
            f"({in_short(error)}), because the data or the version of bliss has changed: train "
            "again."
        ) from error
    return replace(task, scale=scale)


def open_task(folder: RunFolder, load: Callable[[TrainConfig], Dataset]) -> Task:
    """Task of a run, with the weights of its best step."""
    config, weights = folder.settings(), folder.load_best()  # both fit before a network is built
    sides = [side for one in weights.values() for side in one.shape]
    hidden = config.hidden if config.layers > 1 else 1
    if config.layers > len(weights) or hidden > max(sides, default=0):  # would take all memory
        raise DamagedError(
            f"the weights in {str(folder.path)!r} are smaller than layers={config.layers} and "
            f"hidden={config.hidden} in config.json: restore the files of one run, or train again."
        )
    return load_weights(build_task(config, load(config)), weights, folder)
