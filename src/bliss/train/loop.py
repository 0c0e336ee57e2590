"""The training loop: steps, evaluations and checkpoints in a run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from torch import Tensor

from bliss import checks
from bliss.data import Dataset
from bliss.distributed.equality import CHECK_EVERY, check_equal_states, check_same_start
from bliss.distributed.groups import Bytes, Group
from bliss.distributed.rounds import ALONE, as_bytes, mark_told
from bliss.distributed.signals import Signals, catch_signals
from bliss.errors import DamagedError, InputError, Interrupted, TruncatedError
from bliss.feedback import News
from bliss.storage.records import decode, to_json
from bliss.train.checkpoints import (
    Progress,
    capture,
    in_short,
    restore,
    shared_checkpoint,
    track_if_large,
)
from bliss.train.config import TrainConfig
from bliss.train.evaluation import evaluate, evaluate_sampled
from bliss.train.folder import REMEDY, RunFolder, settings_digest
from bliss.train.incremental import Checkpoint
from bliss.train.metrics import TargetScale
from bliss.train.peak_memory import forget_peak, peak_mb
from bliss.train.results import F1, Evaluation, RunResult, StepTime, short_name
from bliss.train.step import Learner
from bliss.train.task import Task, build_task
from bliss.train.telling import SurveyRecorder, pack_scores, unpack_scores

_TARGETS = "targets."  # before the names of a scale among the weights of a run
GRACE = 2.0
"""Seconds within which several processes take repeated signals for one."""


class Standing(NamedTuple):
    """Progress of a run, reported after each step."""

    step: int
    steps: int
    loss: float
    evaluated: int  # step of the last evaluation; 0 before the first
    val_score: float  # validation score of that evaluation
    metric: str = F1  # name of the score


class Trainer:
    """One run in one folder.

    A run resumed from a checkpoint ends with the same weights, policy state and metrics, bit for
    bit, as one that was never stopped, on any number of processes that divides the number of
    shards.

    With several processes, each builds a `Trainer` with the same settings and data and calls `run`.
    Rank 0 alone uses the folder, speaks and evaluates; the others get checkpoints, scores and
    surveys from it. Callbacks are called in every process.

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
    group
        The processes that train together; by default this one alone.
    check_every
        Steps between comparisons of the weights and policies of several processes; 0: never.
    """

    def __init__(
        self,
        config: TrainConfig,
        dataset: Dataset,
        out: str | Path,
        say: Callable[[str], None],
        group: Group = ALONE,
        check_every: int = CHECK_EVERY,
    ) -> None:
        self.task = build_task(config, dataset)
        self.config = self.task.config
        self.learner = Learner(self.task, group)
        self.rounds, self.group = self.learner.rounds, group
        self.folder = RunFolder(checks.path("out", out))
        self.progress = Progress()
        self.say = say if self.rounds.leads else lambda _: None
        self.check_every = checks.whole("check_every", check_every)

    def run(
        self,
        resume: bool = False,
        on_step: Callable[[Standing], None] | None = None,
        on_evaluation: Callable[[Evaluation], None] | None = None,
    ) -> RunResult:
        """Train to the end and return the result."""
        grace = GRACE if self.group.size > 1 else 0.0
        with ExitStack() as lock, catch_signals(grace) as signals, self.rounds.guarded():
            check_same_start(self.rounds, self.config.flat(), self.task.dataset.fingerprint)
            if self.rounds.leads:
                lock.enter_context(self.folder.locked())
            forget_peak(self.task.device)
            self._begin(resume)
            started = perf_counter() - self.progress.seconds
            self._repeat_evaluation(signals, on_evaluation)
            try:
                for step in self.learner.batches(self._is_patience_spent):
                    loss = self.learner.learn(step, signals.number or 0)
                    self.progress.seconds = perf_counter() - started
                    if self.check_every and self.learner.steps % self.check_every == 0:
                        check_equal_states(self.rounds, self.learner.steps, self._states())
                    self._evaluate_if_due(signals, on_evaluation)
                    if on_step:
                        on_step(self._standing(loss))
                    self._stop_if_told(signals)
            except TruncatedError:  # of the data: what was learnt is kept
                if self.group.size == 1 and self.progress.evaluated != self.learner.steps:
                    self._checkpoint()
                raise
            return self._finish(signals)

    def _stop_if_told(self, signals: Signals) -> None:
        """Write a checkpoint and stop after a signal, which all processes have agreed on."""
        number = signals.number if self.group.size == 1 else self.rounds.notice
        if not number or self.learner.steps >= self.config.training.steps:
            return
        if self.progress.evaluated != self.learner.steps:
            self._checkpoint()
        self.rounds.meet()  # the checkpoint is written
        raise mark_told(Interrupted(number))

    def _begin(self, resume: bool) -> None:
        """Open the folder in rank 0, and load the newest checkpoint in all processes."""
        checkpoint = self._open(resume) if self.rounds.leads else None
        self.rounds.meet()
        checkpoint = shared_checkpoint(self.group, checkpoint)
        if checkpoint is not None:
            self.progress = restore(checkpoint, self.learner)
            if self.rounds.leads:
                track_if_large(self.learner)
            self.say(f"Resuming after step {self.learner.steps}.")
        if self.rounds.leads:
            self.folder.remove_leftovers()
            self.folder.write_settings(self.config)
            self.folder.forget_after(self.learner.steps, self.progress.evaluated)
        self.rounds.meet()

    def _open(self, resume: bool) -> Checkpoint | None:
        """Newest checkpoint of the run in the folder, if there is one."""
        folder, config = self.folder, self.config
        folder.refuse_strays()
        if folder.is_started:
            if not resume:
                raise InputError(
                    f"out={str(folder.path)!r} already holds a run: pass --resume to continue it, "
                    "or choose another folder."
                )
            folder.check_settings(config, may_extend=True)
            return self._load()
        if resume:
            self.say(f"There is no run to resume in {str(folder.path)!r}; starting a new one.")
        return None

    def _load(self) -> Checkpoint | None:
        checkpoint = self.folder.load_checkpoint(self.say)
        if checkpoint is None:
            return None
        if checkpoint.counters.get("settings") != settings_digest(self.config):
            raise DamagedError(
                f"the checkpoints in {str(self.folder.path)!r} belong to other settings than those "
                "in config.json: restore the files of one run, or start a run in another folder."
            )
        if checkpoint.counters.get("data") != self.task.dataset.fingerprint:
            raise InputError(
                f"dataset={self.config.data.dataset!r} has changed since the run in "
                f"{str(self.folder.path)!r} was started: restore the same data (check --root), or "
                "start a run in another folder."
            )
        return checkpoint

    def _repeat_evaluation(
        self, signals: Signals, on_evaluation: Callable[[Evaluation], None] | None
    ) -> None:
        """Repeat an interrupted evaluation of a resumed run.

        With prefetch=1 the next batch was already drawn then, so that it must not see the survey.
        """
        is_ahead = self.config.training.prefetch > 0
        ahead = self.learner.sampler.drawing_ahead() if is_ahead else nullcontext()
        with ahead:
            self._evaluate_if_due(signals, on_evaluation)

    def _evaluate_if_due(
        self, signals: Signals, on_evaluation: Callable[[Evaluation], None] | None
    ) -> None:
        """Evaluate and write a checkpoint every `evaluate_every` steps and after the last step.

        A signal interrupts a long evaluation, which is repeated when the run is resumed.
        """
        step, training = self.learner.steps, self.config.training
        is_due = step % training.evaluate_every == 0 or step == training.steps
        if not is_due or step == self.progress.evaluated:
            return
        scores, news = self._told_scores(signals)
        if news:
            self.learner.sampler.apply([news])
        del news  # may be as large as the histories
        found = self._record(step, scores)
        self._checkpoint()
        self.learner.loader.renew_cache()
        if on_evaluation:
            on_evaluation(found)

    def _told_scores(self, signals: Signals) -> tuple[dict[str, float], list[News]]:
        """Scores and the news of a survey, which rank 0 computes and tells the others."""
        recorder, own = SurveyRecorder(self.learner.sampler), dict[str, float]()

        def work(report: Callable[[float], None]) -> Bytes:
            try:
                own.update(self._scores(report, recorder))
            except Interrupted:
                self._checkpoint()
                raise
            return pack_scores(own, recorder.news) if self.group.size > 1 else as_bytes("")

        told = self.rounds.lead(work, signals)
        return (own, recorder.news) if self.rounds.leads else unpack_scores(told)

    def _scores(
        self, report: Callable[[float], None], recorder: SurveyRecorder
    ) -> dict[str, float]:
        splits = ("train", "val")
        if self.config.training.evaluate == "sampled":
            return evaluate_sampled(self.task, self.learner.sampler, splits, report)
        # The evaluation after the last step teaches nothing, so that a run may be extended.
        training = self.config.training
        is_regular = self.learner.steps % training.evaluate_every == 0
        if not (training.survey and is_regular and training.evaluate == "full"):
            return evaluate(self.task, splits, report)
        return evaluate(self.task, splits, report, surveyor=recorder)

    def _record(self, step: int, scores: dict[str, float]) -> Evaluation:
        """Count an evaluation. Rank 0 writes its metrics, and the weights if it is the best."""
        progress, learner = self.progress, self.learner
        found = Evaluation(
            step=step,
            loss=learner.mean_loss(),
            train_score=scores["train"],
            val_score=scores["val"],
            metric=self.task.metric,
            train_mse=scores.get("train_mse"),
            val_mse=scores.get("val_mse"),
            train_error=scores.get("train_error"),
            val_error=scores.get("val_error"),
        )
        if self.rounds.leads:
            self.folder.add_metrics(found)
            self.folder.add_times(StepTime(step=step, seconds=learner.step_seconds))
        progress.evaluated, progress.val_score = step, found.val_score
        progress.stale += 1
        if found.val_score > progress.best_val_score:
            progress.best_step, progress.best_val_score, progress.stale = step, found.val_score, 0
            if self.rounds.leads:
                self.folder.save_best(best_weights(self.task))
        return found

    def _states(self) -> dict[str, dict[str, Tensor]]:
        sampler = self.learner.sampler
        return {"weights": self.task.model.state_dict(), "policy values": sampler.state_dict()}

    def _checkpoint(self) -> None:
        if not self.rounds.leads:
            return
        checkpoint = capture(self.learner, self.progress)
        self.folder.save_checkpoint(self.learner.steps, checkpoint)
        track_if_large(self.learner)

    def _is_patience_spent(self) -> bool:
        return 0 < self.config.training.patience <= self.progress.stale

    def _standing(self, loss: float) -> Standing:
        progress = self.progress
        return Standing(
            self.learner.steps,
            self.config.training.steps,
            loss,
            progress.evaluated,
            progress.val_score,
            self.task.metric,
        )

    def _finish(self, signals: Signals) -> RunResult:
        """Evaluate the best weights once, on all splits, and write the result."""
        own: list[RunResult] = []

        def work(report: Callable[[float], None]) -> Bytes:
            own.append(self._result(report))
            return as_bytes(to_json(own[0]))

        told = self.rounds.lead(work, signals)
        if own:
            return own[0]
        return decode(json.loads(told.tobytes()), RunResult, "the result of rank 0", REMEDY)

    def _result(self, report: Callable[[float], None]) -> RunResult:
        config, learner, progress = self.config, self.learner, self.progress
        if learner.steps < config.training.steps:
            score = short_name(self.task.metric)
            self.say(
                f"Stopped early at step {learner.steps}: no better validation {score} in "
                f"{progress.stale} evaluations (--patience {config.training.patience})."
            )
        load_weights(self.task, self.folder.load_best(), self.folder)
        scores = evaluate(self.task, ("train", "val", "test"), report)
        result = RunResult(
            dataset=config.data.dataset,
            model=config.network.model,
            sampler=config.sampler.name,
            policy=config.sampler.config.policy_name,
            seed=config.seed,
            steps=learner.steps,
            best_step=progress.best_step,
            train_score=scores["train"],
            val_score=scores["val"],
            test_score=scores["test"],
            seconds=progress.seconds,
            step_ms=learner.step_ms(),
            sampled=learner.mean_sampled(),
            peak_mb=peak_mb(self.task.device),
            data=self.task.dataset.fingerprint,
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
    network = config.network
    hidden = network.hidden if network.layers > 1 else 1
    if network.layers > len(weights) or hidden > max(sides, default=0):  # would take all memory
        raise DamagedError(
            f"the weights in {str(folder.path)!r} are smaller than layers={network.layers} and "
            f"hidden={network.hidden} in config.json: restore the files of one run, or train again."
        )
    return load_weights(build_task(config, load(config)), weights, folder)
