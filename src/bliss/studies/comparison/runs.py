"""The runs of a study: each has its own folder, and finished ones are not repeated."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bliss.data import Dataset, load_dataset
from bliss.errors import DivergedError, InputError
from bliss.train import Evaluation, RunFolder, RunResult, TrainConfig, Trainer
from bliss.train.loop import StepProgress
from bliss.train.results import StepTime, score_text, short_name
from bliss.train.time_task import sees_times


@dataclass(frozen=True)
class StudyRun:
    """One run of a study."""

    name: str
    """Its folder, relative to the study's."""
    config: TrainConfig
    split_seed: int | None = None
    """Seed of random splits; by default that of the run."""


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    run: StudyRun
    result: RunResult
    metrics: list[Evaluation]
    times: list[StepTime]


@dataclass(frozen=True)
class StudyProgress:
    """Progress of a study, in training steps of all its runs."""

    done: int
    total: int
    text: str
    is_new: bool  # whether a run has just ended


class DataCache:
    """Loads data sets from a root and keeps the last one; or holds the one that is given."""

    def __init__(self, root: Path | None, given: Dataset | None = None) -> None:
        self.root, self.given = root, given
        self._key: tuple[str, int] | None = None

    def load(self, config: TrainConfig, split_seed: int | None = None) -> Dataset:
        """The data set of a run; random splits depend on the seed."""
        if self.given is not None:
            return self.given
        key = (config.data.dataset, config.seed if split_seed is None else split_seed)
        if self._key != key:
            self._key, self._last = key, load_dataset(key[0], self.root, seed=key[1])
        return self._last


def own_dataset(settings: Mapping[str, Any]) -> tuple[dict[str, Any], Dataset | None]:
    """Settings with the name of a data set, and the `Dataset` if one was given in its place."""
    given = settings.get("dataset")
    if not isinstance(given, Dataset):
        return dict(settings), None
    return {**settings, "dataset": given.name}, given


def run_each(
    runs: Sequence[StudyRun],
    out: Path,
    data: DataCache,
    say: Callable[[str], None],
    on_progress: Callable[[StudyProgress], None] | None,
    *,
    may_diverge: bool = False,
) -> dict[str, Outcome]:
    """Train missing runs and resume interrupted ones; returns all outcomes by name.

    With may_diverge, diverged runs are left out. Runs are ordered by seed, so that a partial study
    covers every setting.
    """
    total, done = sum(run.config.training.steps for run in runs), 0
    outcomes: dict[str, Outcome] = {}
    for number, run in enumerate(sorted(runs, key=lambda run: run.config.seed), start=1):
        config, folder = run.config, RunFolder(out / run.name)
        label = f"{number}/{len(runs)} {run.name}"

        def move(now: StepProgress, before: int = done, label: str = label) -> None:
            if on_progress:
                on_progress(StudyProgress(before + now.step, total, label, False))

        result, dataset = folder.result(), data.load(config, run.split_seed)
        has_times = sees_times(config.objective, dataset)
        config = config.fitted(dataset.graph.num_nodes, dataset.num_features, has_times)
        done += config.training.steps
        if result is None:
            trainer = Trainer(config, dataset, folder.path, say)
            try:
                result = trainer.run(folder.is_started, move)
            except DivergedError as error:
                if not may_diverge:
                    raise
                say(f"Warning: {run.name} is left out: {error}")
                continue
        shutil.rmtree(folder.checkpoints, ignore_errors=True)  # the best weights stay
        folder.check_settings(config)
        _check_data(result, dataset, folder)
        outcomes[run.name] = Outcome(run, result, folder.metrics(), folder.times())
        if on_progress:
            score = score_text(result.metric, result.test_score)
            text = f"{label}: test {short_name(result.metric, result.ranks)} {score}"
            on_progress(StudyProgress(done, total, text, True))
    return outcomes


def _check_data(result: RunResult, dataset: Dataset, folder: RunFolder) -> None:
    """Refuse a finished run of other data with the same name."""
    if result.data and result.data != dataset.fingerprint:
        raise InputError(
            f"dataset={result.dataset!r} has changed since the run in {str(folder.path)!r}: "
            "restore the same data (check --root), or choose another folder with --out."
        )
