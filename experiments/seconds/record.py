"""Test F1 over seconds until networks have converged: PPI, GraphSAGE with 3 layers of width 512.

`python -m experiments.seconds.record times --root DATA` measures the time of a step of every
setting; run it alone on a machine. `... record train SETTING --seconds 60` trains a setting for the
steps that fit, with a linear schedule, and evaluates it twelve times; such runs may share the
machine. Results are stored in record.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, TrainConfig, build_task, resolve
from bliss.train.evaluation import evaluate
from experiments.seconds.run import measure

PATH = Path(__file__).parent / "record.json"
POINTS, SEED = 12, 0
NETWORK = {
    "dataset": "ppi",
    "features": "raw",
    "model": "sage",
    "layers": 3,
    "hidden": 512,
    "normalisation": "batch",
    "lr": 0.01,
    "schedule": "linear",
    "patience": 0,
    "seed": SEED,
}
HISTORY = {
    "sampler": "bliss",
    "history": "nodes",
    "first_hop": "exact",
    "batch_size": 512,
    "budgets": (512, 512),
}
WALKS = {"sampler": "saint-rw", "batch_size": 3000, "length": 2, "coverage": 50.0}
"""GraphSAINT's settings for PPI: 3,000 roots, walks of 2 hops, dropout 0.1, learning rate 0.01."""
SETTINGS: dict[str, dict[str, Any]] = {
    "bliss+history": {**HISTORY, "dropout": 0.0},
    "bliss+history, weight decay 1e-5": {**HISTORY, "dropout": 0.0, "weight_decay": 1e-5},
    "bliss+history, weight decay 1e-4": {**HISTORY, "dropout": 0.0, "weight_decay": 1e-4},
    "bliss+history, dropout 0.1": {**HISTORY, "dropout": 0.1},
    "bliss+history, dropout 0.2": {**HISTORY, "dropout": 0.2},
    "saint-rw": {**WALKS, "dropout": 0.0},
    "saint-rw, weight decay 1e-5": {**WALKS, "dropout": 0.0, "weight_decay": 1e-5},
    "saint-rw, dropout 0.1": {**WALKS, "dropout": 0.1},
    "saint-rw, dropout 0.2": {**WALKS, "dropout": 0.2},
}


class Timed(records.Record, frozen=True, kw_only=True):
    """Times of a setting, measured alone on the machine."""

    name: str
    setup_s: float
    step_ms: float

    def seconds(self, steps: int) -> float:
        """Time of training of some steps."""
        return self.setup_s + steps * self.step_ms / 1e3


class Point(records.Record, frozen=True, kw_only=True):
    """Scores after some steps."""

    step: int
    train_score: float
    val_score: float
    test_score: float


class Curve(records.Record, frozen=True, kw_only=True):
    """A training run."""

    name: str
    seconds: int
    points: list[Point]


class Record(records.Record, frozen=True, kw_only=True):
    """All settings and runs."""

    machine: Machine
    times: list[Timed]
    curves: list[Curve]

    def time(self, name: str) -> Timed:
        """Times of a setting."""
        return next(one for one in self.times if one.name == name)


def read() -> Record:
    """The stored results."""
    return records.read(PATH, Record, "run the experiment again")


def config(name: str, steps: int) -> TrainConfig:
    """Settings of a run."""
    return resolve(**NETWORK, **SETTINGS[name], steps=steps)


def train(name: str, seconds: int, time: Timed, dataset: Dataset) -> Curve:
    """Train a setting for the steps that fit into some seconds, evaluating it now and then."""
    steps = int(1e3 * (seconds - time.setup_s) / time.step_ms)
    marks = {steps * (number + 1) // POINTS for number in range(POINTS)}
    task = build_task(config(name, steps), dataset)
    stepper, points = Stepper(task), []
    for step, batch in enumerate(stepper.batches(), start=1):
        stepper.step(batch)
        if step in marks:
            score = evaluate(task, ("train", "val", "test"))
            named = {f"{split}_score": round(score[split], 5) for split in score}
            points.append(Point(step=step, **named))
            print(name, seconds, points[-1], flush=True)
    return Curve(name=name, seconds=seconds, points=points)


def chosen(found: Record) -> dict[str, Curve]:
    """The run of each sampler with the best validation score at its end."""
    best: dict[str, Curve] = {}
    for curve in sorted(found.curves, key=lambda one: one.points[-1].val_score):
        best[curve.name.partition(",")[0]] = curve
    return dict(sorted(best.items()))


def tables(found: Record) -> list[str]:
    """Ends of all runs, and the course of the best one of each sampler."""
    best = chosen(found)
    lines = [
        "| setting | seconds | steps | training F1 | validation F1 | test F1 |",
        "|---" * 6 + "|",
    ]
    for curve in sorted(found.curves, key=lambda one: list(SETTINGS).index(one.name)):
        end = curve.points[-1]
        scores = [f"{one:.3f}" for one in (end.train_score, end.val_score, end.test_score)]
        if curve in best.values():
            scores[1] = f"**{scores[1]}**"
        lines.append(f"| {curve.name} | {curve.seconds} | {end.step:,} | {' | '.join(scores)} |")
    heads = [
        f"{curve.name}: {split}" for curve in best.values() for split in ("validation", "test")
    ]
    lines += ["", f"| seconds | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for points in zip(*(curve.points for curve in best.values()), strict=True):
        seconds = {
            round(found.time(curve.name).seconds(point.step))
            for curve, point in zip(best.values(), points, strict=True)
        }
        cells = [f"{one:.3f}" for point in points for one in (point.val_score, point.test_score)]
        lines.append(f"| {' / '.join(map(str, sorted(seconds)))} | {' | '.join(cells)} |")
    return [*lines, ""]


def main() -> None:
    """Measure times, or train a setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("times", "train"))
    parser.add_argument("setting", nargs="?", choices=SETTINGS)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_dataset("ppi", arguments.root)
    found = read() if PATH.exists() else Record(machine=machine(), times=[], curves=[])
    if arguments.action == "train":
        name = arguments.setting
        curve = train(name, arguments.seconds, found.time(name), dataset)
        found = read()
        records.write(PATH, msgspec.structs.replace(found, curves=[*found.curves, curve]))
        return
    for name in SETTINGS:
        if name not in {one.name for one in found.times}:
            setup_s, step_ms = measure(config(name, 10**6), dataset)
            print(name, setup_s, step_ms, flush=True)
            time = Timed(name=name, setup_s=setup_s, step_ms=step_ms)
            found = msgspec.structs.replace(found, times=[*found.times, time])
            records.write(PATH, found)


if __name__ == "__main__":
    main()
