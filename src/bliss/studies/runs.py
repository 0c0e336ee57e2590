"""The runs of a study: each has its own folder, and finished ones are not repeated."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from bliss.data import Dataset, load_dataset
from bliss.data.summary import self_loops
from bliss.errors import DivergedError, InputError
from bliss.studies.records import GraphFacts, Machine
from bliss.train import Evaluation, RunFolder, RunResult, TrainConfig, Trainer
from bliss.train.loop import Standing as RunStanding
from bliss.train.results import StepTime, short_name


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    name: str
    """Its folder, relative to the study's."""
    config: TrainConfig
    split_seed: int | None = None
    """Seed of random splits; by default that of the run."""


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    cell: Cell
    result: RunResult
    metrics: list[Evaluation]
    times: list[StepTime]


@dataclass(frozen=True)
class Standing:
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


def run_cells(
    cells: Sequence[Cell],
    out: Path,
    data: DataCache,
    say: Callable[[str], None],
    on_progress: Callable[[Standing], None] | None = None,
) -> list[Outcome]:
    """Run missing cells, resume interrupted ones, and return all outcomes in order."""
    found = finished(cells, out, data, say, on_progress)
    return [found[cell.name] for cell in cells]


def finished(
    cells: Sequence[Cell],
    out: Path,
    data: DataCache,
    say: Callable[[str], None],
    on_progress: Callable[[Standing], None] | None = None,
    *,
    may_diverge: bool = False,
) -> dict[str, Outcome]:
    """Outcomes of cells by name; those whose network diverges are left out, if they may.

    Runs are ordered by seed, so that a partial study covers every setting.
    """
    total, done = sum(cell.config.training.steps for cell in cells), 0
    found: dict[str, Outcome] = {}
    for number, cell in enumerate(sorted(cells, key=lambda one: one.config.seed), start=1):
        config, folder = cell.config, RunFolder(out / cell.name)
        label = f"{number}/{len(cells)} {cell.name}"

        def move(now: RunStanding, before: int = done, label: str = label) -> None:
            if on_progress:
                on_progress(Standing(before + now.step, total, label, False))

        result, dataset = folder.result(), data.load(config, cell.split_seed)
        config = config.fitted(dataset.graph.num_nodes)
        done += config.training.steps
        if result is None:
            trainer = Trainer(config, dataset, folder.path, say)
            try:
                result = trainer.run(folder.is_started, move)
            except DivergedError as error:
                if not may_diverge:
                    raise
                say(f"Warning: {cell.name} is left out: {error}")
                continue
        shutil.rmtree(folder.checkpoints, ignore_errors=True)  # the best weights stay
        folder.check_settings(config)
        _check_data(result, dataset, folder)
        found[cell.name] = Outcome(cell, result, folder.metrics(), folder.times())
        if on_progress:
            text = f"{label}: test {short_name(result.metric)} {result.test_score:.4f}"
            on_progress(Standing(done, total, text, True))
    return found


def _check_data(result: RunResult, dataset: Dataset, folder: RunFolder) -> None:
    """Refuse a finished run of other data with the same name."""
    if result.data and result.data != dataset.fingerprint:
        raise InputError(
            f"dataset={result.dataset!r} has changed since the run in {str(folder.path)!r}: "
            "restore the same data (check --root), or choose another folder with --out."
        )


def machine() -> Machine:
    """The current machine and the versions in use."""
    return Machine(
        processor=processor(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        python=platform.python_version(),
    )


def load_per_core() -> float | None:
    """Running processes per core over the last minute; None if the system does not tell."""
    if not hasattr(os, "getloadavg"):
        return None
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def graph_facts(dataset: Dataset) -> GraphFacts:
    """Size of a data set's graph."""
    graph = dataset.graph
    return GraphFacts(
        nodes=graph.num_nodes,
        edges=graph.num_edges - int(self_loops(graph).sum()),
        features=dataset.num_features,
        classes=dataset.num_classes,
    )


def today() -> str:
    """Date and time, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def processor() -> str:
    """Name of the processor, if the system reports it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor() or platform.machine()
