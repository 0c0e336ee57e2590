"""A study's runs: each in a folder of its own, none run twice."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from bliss.data import Dataset, load_dataset
from bliss.train import Progress, RunFolder, TrainConfig, Trainer


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    name: str
    """Its folder, relative to the study's."""
    config: TrainConfig


@dataclass(frozen=True)
class Outcome:
    """A finished run: what its folder holds."""

    cell: Cell
    result: dict[str, Any]
    metrics: list[dict[str, Any]]  # by evaluation: step, loss, train_f1, val_f1
    times: list[dict[str, Any]]  # by evaluation: step, seconds spent in steps so far


@dataclass(frozen=True)
class Standing:
    """How far a study is, in steps of all its runs."""

    done: int
    total: int
    text: str
    is_new: bool  # whether a run has just ended


def run_cells(
    cells: Sequence[Cell],
    out: Path,
    root: Path | None,
    say: Callable[[str], None],
    on_progress: Callable[[Standing], None] | None = None,
) -> list[Outcome]:
    """Run what is missing, resume what was stopped, and return all outcomes in order.

    Runs are taken seed by seed, so that early on there is something of everything.
    """
    total, done = sum(cell.config.steps for cell in cells), 0
    found: dict[str, Outcome] = {}
    loaded: tuple[tuple[str, int], Dataset] | None = None
    for number, cell in enumerate(sorted(cells, key=lambda one: one.config.seed), start=1):
        config, folder = cell.config, RunFolder(out / cell.name)
        label = f"{number}/{len(cells)} {cell.name}"

        def move(now: Progress, before: int = done, label: str = label) -> None:
            if on_progress:
                on_progress(Standing(before + now.step, total, label, False))

        if not (folder.path / "result.json").exists():
            key = (config.dataset, config.seed)
            if loaded is None or loaded[0] != key:
                loaded = key, load_dataset(config.dataset, root, seed=config.seed)
            Trainer(config, loaded[1], folder.path, say).run(folder.is_started, move)
            shutil.rmtree(folder.checkpoints)  # the best weights stay
        found[cell.name] = outcome(cell, folder)
        done += config.steps
        if on_progress:
            score = found[cell.name].result["test_f1"]
            on_progress(Standing(done, total, f"{label}: test F1 {score:.4f}", True))
    return [found[cell.name] for cell in cells]


def outcome(cell: Cell, folder: RunFolder) -> Outcome:
    """Read a finished run; refuses one that was run with other settings."""
    folder.check_settings(cell.config)
    return Outcome(cell, folder.read_json("result.json"), folder.metrics(), folder.times())


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float]:
    """Mean and sample deviation; the deviation of one value is 0."""
    numbers = list(values)
    return mean(numbers), stdev(numbers) if len(numbers) > 1 else 0.0


def curve(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Validation F1 and loss over steps: mean and deviation over the runs that got there."""
    found: dict[str, list[float]] = {"step": []}
    for step, lines in _by_step(outcomes):
        found["step"].append(step)
        for name in ("val_f1", "loss"):
            average, deviation = mean_and_deviation(line[name] for line in lines)
            found.setdefault(name, []).append(average)
            found.setdefault(f"{name}_std", []).append(deviation)
    return found


def _by_step(outcomes: Sequence[Outcome]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    lines: dict[int, list[dict[str, Any]]] = {}
    for one in outcomes:
        for line in one.metrics:
            lines.setdefault(line["step"], []).append(line)
    yield from sorted(lines.items())


def machine() -> dict[str, Any]:
    """What numbers were measured on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def processor() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor() or platform.machine()
