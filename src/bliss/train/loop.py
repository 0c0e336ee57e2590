"""The training loop: steps, evaluations and checkpoints in a run's folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from math import nan
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from torch import Tensor

from bliss import checks
from bliss.arrays import Bytes
from bliss.data import Dataset
from bliss.data.dataset import SPLITS
from bliss.data.feature_encoder import FeatureEncoder
from bliss.data.timestamps import time_text
from bliss.data.type_summary import type_rows_of
from bliss.distributed.agreement import everywhere
from bliss.distributed.equality import CHECK_EVERY, check_equal_states, check_same_start
from bliss.distributed.groups import ALONE, Group, as_bytes
from bliss.errors import DamagedError, InputError, Interrupted, TruncatedError
from bliss.nn.model import GNN
from bliss.storage.records import decode, to_json
from bliss.train.assessment import assess
from bliss.train.checkpoints import (
    Progress,
    capture,
    in_short,
    pack_checkpoint,
    restore,
    track_if_large,
    unpack_checkpoint,
)
from bliss.train.config import TrainConfig
from bliss.train.divergence import DivergenceMonitor
from bliss.train.evaluation import (
    SurveyedScores,
    evaluate,
    evaluate_and_survey,
    evaluate_sampled,
)
from bliss.train.folder import REMEDY, RunFolder, settings_digest
from bliss.train.incremental import Checkpoint
from bliss.train.peak_memory import forget_peak, peak_mb
from bliss.train.results import (
    NO_RANKS,
    DataSchema,
    Evaluation,
    RunResult,
    StepTime,
    TimeWindow,
    gain,
    score_fields,
    short_name,
)
from bliss.train.schema import check_features, check_schema, schema_of, with_labels_of
from bliss.train.step import Stepper
from bliss.train.task import NetworkSchema, Task, build_network, build_task
from bliss.train.typed_inputs import TypedEncoder

_TARGETS = "targets."  # before the names of a scale among the weights of a run
_FEATURES = "features."  # before the names of the statistics of features
_EMBEDDING = "embedding.value"  # name of the learnt embedding


class StepProgress(NamedTuple):
    """Progress of a run, reported after each step."""

    step: int
    steps: int
    loss: float
    evaluated: int  # step of the last evaluation; 0 before the first
    val_score: float  # validation score of that evaluation
    metric: str = "f1"
    ranks: Mapping[str, int] = NO_RANKS  # K of metrics of links


class Trainer:
    """One run in one folder.

    A run resumed from a checkpoint ends with the same weights, policy state and metrics, bit for
    bit, as one that was never stopped, on any number of processes that divides the number of
    shards.

    With several processes, each builds a `Trainer` with the same settings and data and calls `run`.
    Rank 0 alone uses the folder, prints and evaluates, and broadcasts checkpoints, scores and the
    updates of surveys. Callbacks are called in every process.

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
        if config.objective.windows > 1 and not config.objective.window:
            raise InputError(
                f"windows={config.objective.windows} are several runs: use bliss.train.rolling, or "
                "pass the number of one window."
            )
        self.task = build_task(config, dataset)
        self.config = self.task.config
        self.stepper = Stepper(self.task, group)
        self.communicator, self.group = self.stepper.communicator, group
        self.folder = RunFolder(checks.path("out", out))
        self.progress = Progress()
        self.monitor = DivergenceMonitor(self.task)
        self.say = say if self.communicator.is_root else lambda _: None
        self.check_every = checks.whole("check_every", check_every)
        graph = self.task.graph
        for note in config.size_notes(graph.num_nodes, dataset.num_features, graph.has_times):
            self.say(note)

    def run(
        self,
        resume: bool = False,
        on_step: Callable[[StepProgress], None] | None = None,
        on_evaluation: Callable[[Evaluation], None] | None = None,
    ) -> RunResult:
        """Train to the end and return the result."""
        communicator, stepper = self.communicator, self.stepper
        with ExitStack() as lock, communicator.sharing_signals(), communicator.sharing_errors():
            check_same_start(communicator, self.config.flat(), self.task.dataset.fingerprint)
            if communicator.is_root:
                lock.enter_context(self.folder.locked())
            forget_peak(self.task.device)
            self._begin(resume)
            started = perf_counter() - self.progress.seconds
            self._repeat_evaluation(on_evaluation)
            try:
                for batches in stepper.batches(self._is_patience_spent):
                    loss = stepper.step(batches)
                    if warning := self.monitor.add(loss):
                        self.say(warning)
                    self.progress.seconds = perf_counter() - started
                    if self.check_every and stepper.steps % self.check_every == 0:
                        check_equal_states(communicator, stepper.steps, self._states())
                    self._evaluate_if_due(on_evaluation)
                    if on_step:
                        on_step(self._step_progress(loss))
                    self._stop_if_signalled()
            except TruncatedError:  # of the data: what was learnt is kept
                if self.group.size == 1 and self.progress.evaluated != stepper.steps:
                    self._checkpoint()
                raise
            return communicator.broadcast(self._finish, _pack_result, _unpack_result)

    def _stop_if_signalled(self) -> None:
        """Write a checkpoint and stop after a signal, which all processes have agreed on."""
        number = self.communicator.signal
        if not number or self.stepper.steps >= self.config.training.steps:
            return
        if self.progress.evaluated != self.stepper.steps:
            self._checkpoint()
        self.communicator.barrier()  # the checkpoint is written
        raise everywhere(Interrupted(number))

    def _begin(self, resume: bool) -> None:
        """Open the folder in rank 0, and load the newest checkpoint in all processes."""
        open_folder = partial(self._open, resume)
        checkpoint = self.communicator.broadcast(open_folder, pack_checkpoint, unpack_checkpoint)
        if checkpoint is not None:
            self.progress = restore(checkpoint, self.stepper)
            if self.communicator.is_root:
                track_if_large(self.stepper)
            self.say(f"Resuming after step {self.stepper.steps}.")
        if self.communicator.is_root:
            self.folder.remove_leftovers()
            self.folder.write_settings(self.config)
            self.folder.forget_after(self.stepper.steps, self.progress.evaluated)
        self.communicator.barrier()  # the folder is ready

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
        for note in self.task.objective.notes:
            self.say(note)
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

    def _repeat_evaluation(self, on_evaluation: Callable[[Evaluation], None] | None) -> None:
        """Repeat an interrupted evaluation of a resumed run.

        With prefetch=1 the next batch was already drawn then, so that it must not see the survey.
        """
        learning, training = self.stepper.sampler.learning, self.config.training
        ahead = learning.drawing_ahead() if training.prefetch else nullcontext()
        with ahead:
            self._evaluate_if_due(on_evaluation)

    def _evaluate_if_due(self, on_evaluation: Callable[[Evaluation], None] | None) -> None:
        """Evaluate and write a checkpoint every `evaluate_every` steps and after the last step.

        A signal interrupts a long evaluation, which is repeated when the run is resumed.
        """
        step, training = self.stepper.steps, self.config.training
        is_due = step % training.evaluate_every == 0 or step == training.steps
        if not is_due or step == self.progress.evaluated:
            return
        try:
            scores, news = self.communicator.broadcast(
                self._evaluate, SurveyedScores.pack, SurveyedScores.unpack
            )
        except Interrupted:
            self._checkpoint()
            raise
        if news:
            self.stepper.sampler.apply([news])
        del news  # may be as large as the histories
        evaluation = self._record(step, scores)
        self._checkpoint()
        self.stepper.loader.renew_cache()
        if on_evaluation:
            on_evaluation(evaluation)

    def _evaluate(self) -> SurveyedScores:
        """Scores of training and validation nodes, with the update of a survey if there is one."""
        splits, progress = ("train", "val"), self.communicator.check_signals
        training = self.config.training
        if training.evaluate == "sampled":
            scores = evaluate_sampled(self.task, self.stepper.sampler, splits, progress)
            return SurveyedScores(scores, [])
        # The evaluation after the last step is not a survey, so that a run can be extended.
        is_regular = self.stepper.steps % training.evaluate_every == 0
        is_regular &= self.task.objective.is_survey
        if training.survey and is_regular and training.evaluate == "full":
            return evaluate_and_survey(self.task, self.stepper.sampler, splits, progress)
        return SurveyedScores(evaluate(self.task, splits, progress), [])

    def _record(self, step: int, scores: dict[str, float]) -> Evaluation:
        """Count an evaluation. Rank 0 writes its metrics, and the weights if it is the best."""
        progress, stepper = self.progress, self.stepper
        loss, metric = stepper.mean_loss(), self.task.metric
        evaluation = Evaluation(step=step, loss=loss, metric=metric, **score_fields(scores))
        if self.communicator.is_root:
            self.folder.add_metrics(evaluation)
            self.folder.add_times(StepTime(step=step, seconds=stepper.step_seconds))
        progress.evaluated, progress.val_score = step, evaluation.val_score
        progress.stale += 1
        if gain(metric, progress.val_score) > progress.best_gain:
            progress.best_step, progress.best_gain = step, gain(metric, progress.val_score)
            progress.stale = 0
            if self.communicator.is_root:
                self.folder.save_best(best_weights(self.task), schema_of(self.task))
        return evaluation

    def _states(self) -> dict[str, dict[str, Tensor]]:
        weights, embedding = dict(self.task.model.state_dict()), self.task.embedding
        if embedding is not None:
            weights[_EMBEDDING] = embedding.value
        return {"weights": weights, "policy values": self.stepper.sampler.state_dict()}

    def _checkpoint(self) -> None:
        if not self.communicator.is_root:
            return
        checkpoint = capture(self.stepper, self.progress)
        self.folder.save_checkpoint(self.stepper.steps, checkpoint)
        track_if_large(self.stepper)

    def _is_patience_spent(self) -> bool:
        return 0 < self.config.training.patience <= self.progress.stale

    def _step_progress(self, loss: float) -> StepProgress:
        progress, ranks = self.progress, self.config.objective.ranks
        of_run = self.stepper.steps, self.config.training.steps, loss
        evaluation = progress.evaluated, progress.val_score, self.task.metric
        return StepProgress(*of_run, *evaluation, ranks)

    def _finish(self) -> RunResult:
        """Evaluate the best weights once, on all splits, and write the result."""
        config, stepper, progress = self.config, self.stepper, self.progress
        if stepper.steps < config.training.steps:
            score = short_name(self.task.metric, config.objective.ranks)
            self.say(
                f"Stopped early at step {stepper.steps}: no better validation {score} in "
                f"{progress.stale} evaluations (--patience {config.training.patience})."
            )
        load_weights(self.task, self.folder.load_best(), self.folder)
        assessment = assess(self.task, SPLITS, self.communicator.check_signals)
        assessed = assessment.splits
        scores = {split: part.scores for split, part in assessed.items()}
        metric = self.task.metric
        result = RunResult(
            dataset=config.data.dataset,
            model=config.network.model,
            sampler=config.sampler.name,
            policy=config.sampler.config.policy_name,
            seed=config.seed,
            steps=stepper.steps,
            best_step=progress.best_step,
            seconds=progress.seconds,
            step_ms=stepper.step_ms(),
            sampled=stepper.mean_sampled(),
            peak_mb=peak_mb(self.task.device),
            data=self.task.dataset.fingerprint,
            metric=metric,
            train_score=scores["train"].get(metric, nan),
            val_score=scores["val"].get(metric, nan),
            test_score=scores["test"].get(metric, nan),
            scores=scores,
            classes=assessed["test"].classes,
            confusion=assessed["test"].confusion,
            constant=assessed["test"].constant,
            has_learnt=assessment.has_learnt,
            causes=assessment.causes,
            window=self._window(),
            ranks=config.objective.ranks,
            types=type_rows_of(self.task.dataset),
        )
        self.folder.write_result(result)
        return result

    def _window(self) -> TimeWindow | None:
        """Times of the test split; None without times."""
        period, objective = self.task.objective.period("test"), self.config.objective
        if period is None:
            return None
        number, windows = objective.test_window
        start, end = (time_text(one, self.task.dataset.time_unit) for one in period)
        return TimeWindow(number=number, of=windows, start=start, end=end)


def _pack_result(result: RunResult) -> Bytes:
    return as_bytes(to_json(result))


def _unpack_result(content: Bytes) -> RunResult:
    return decode(json.loads(content.tobytes()), RunResult, "the result of rank 0", REMEDY)


def best_weights(task: Task) -> dict[str, Tensor]:
    """Weights of the network, with the scale of the targets and the statistics of the features."""
    weights = dict(task.model.state_dict())
    weights |= {f"{_FEATURES}{name}": tensor for name, tensor in task.encoder.to_dict().items()}
    weights |= {f"{_TARGETS}{name}": tensor for name, tensor in task.objective.state().items()}
    if task.embedding is not None:
        weights[_EMBEDDING] = task.embedding.value.contiguous()
    return weights


def load_network(
    folder: RunFolder, config: TrainConfig, schema: DataSchema
) -> tuple[GNN, FeatureEncoder | TypedEncoder, Tensor | None]:
    """The network of a run's best step, its encoder, and the learnt embedding [V, D], if any.

    The network is on the CPU and in evaluation mode.
    """
    weights = _best_weights(folder, config)
    shape = NetworkSchema(schema.features, schema.node_types, tuple(schema.edge_types))
    model = build_network(config, shape, schema.outputs)
    _load(model, weights, folder)
    return model.eval(), _encoder(config, weights, folder, schema), weights.get(_EMBEDDING)


def load_weights(task: Task, weights: Mapping[str, Tensor], folder: RunFolder) -> Task:
    """Load weights from a run's folder into the network; returns the task with their scale."""
    _load(task.model, weights, folder)
    if task.embedding is not None:
        value, nodes = weights[_EMBEDDING], len(task.embedding.value)
        if len(value) != nodes:
            raise InputError(
                f"dataset={task.dataset.name!r} has {nodes:,} nodes, but the run in "
                f"{str(folder.path)!r} has learnt embeddings of {len(value):,} nodes, and those of "
                "others are unknown: pass the graph of the run."
            )
        task.embedding.value.copy_(value)
    beside = {k.removeprefix(_TARGETS): t for k, t in weights.items() if k.startswith(_TARGETS)}
    try:
        return replace(task, objective=task.objective.with_state(beside))
    except KeyError as error:
        raise _misfit(folder, error) from error


def _load(model: GNN, weights: Mapping[str, Tensor], folder: RunFolder) -> None:
    """Load the weights of a network, without what is stored beside them."""
    beside = (_TARGETS, _FEATURES, _EMBEDDING)
    of_model = {name: t for name, t in weights.items() if not name.startswith(beside)}
    try:
        model.load_state_dict(of_model)
    except RuntimeError as error:
        raise _misfit(folder, error) from error


def _misfit(folder: RunFolder, error: Exception) -> DamagedError:
    return DamagedError(
        f"the weights in {str(folder.path)!r} do not fit the data and network "
        f"({in_short(error)}), because the data or the version of bliss has changed: train again."
    )


def open_task(
    folder: RunFolder, load: Callable[[TrainConfig], Dataset], *, needs_labels: bool = True
) -> Task:
    """Task of a run, with the weights of its best step.

    The data may be another graph than that of the run, if its features and edge weights fit. With
    `needs_labels`, its labels must be of the same kind; otherwise they are ignored.
    """
    config, schema = folder.settings(), folder.schema()
    weights = _best_weights(folder, config)
    dataset = load(config)
    check_features(dataset, schema, folder.path)
    if not needs_labels and not config.objective.is_link:
        dataset = with_labels_of(schema, dataset)
    encoder = _encoder(config, weights, folder, schema)
    task = build_task(config, dataset, encoder, trains=False, scores=needs_labels)
    check_schema(task, schema, folder.path)
    return load_weights(task, weights, folder)


def _best_weights(folder: RunFolder, config: TrainConfig) -> dict[str, Tensor]:
    """Weights of the best step, which are as large as the settings say."""
    weights = folder.load_best()
    sides = [side for tensor in weights.values() for side in tensor.shape]
    network = config.network
    hidden = network.hidden if network.layers > 1 else 1
    is_small = network.layers > len(weights) or hidden > max(sides, default=0)
    is_small &= not network.is_light  # which has no layers to allocate
    learnt = weights.get(_EMBEDDING)
    width = 0 if learnt is None else learnt.size(-1)
    if is_small or width != network.embedding:  # would take all memory
        raise DamagedError(
            f"the weights in {str(folder.path)!r} are smaller than layers={network.layers}, "
            f"hidden={network.hidden} and embedding={network.embedding} in config.json: restore "
            "the files of one run, or train again."
        )
    return weights


def _encoder(
    config: TrainConfig, weights: Mapping[str, Tensor], folder: RunFolder, schema: DataSchema
) -> FeatureEncoder | TypedEncoder:
    """The encoder of features that the run was trained with."""
    named = {
        name.removeprefix(_FEATURES): tensor
        for name, tensor in weights.items()
        if name.startswith(_FEATURES)
    }
    try:
        if schema.node_types:
            return TypedEncoder.from_dict(config.data.features, named, [*schema.node_types])
        return FeatureEncoder.from_dict(config.data.features, named)
    except ValueError as error:
        raise DamagedError(
            f"the weights in {str(folder.path)!r} are damaged ({error}): train again."
        ) from error
