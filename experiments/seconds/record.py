"""Test F1 over seconds until networks have converged: PPI, networks of width 512.

`python -m experiments.seconds.record times --root DATA` measures the time of a step of every
setting; run it alone on a machine. `... record train SETTING --seconds 60` trains a setting for the
steps that fit, with a linear schedule, and evaluates it twelve times; such runs may share the
machine. Results are stored in results.json.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, build_task, resolve
from bliss.train.evaluation import evaluate
from bliss.train.task import Task
from experiments.results import Part
from experiments.seconds.run import measure
from experiments.seconds.saint_network import saint_task

POINTS = 12
COMMON = {
    "dataset": "ppi",
    "model": "sage",
    "hidden": 512,
    "lr": 0.01,
    "schedule": "linear",
    "patience": 0,
}
SAGE = {"features": "raw", "layers": 3, "normalisation": "batch"}
AUTHORS = {"features": "standard", "layers": 2, "normalisation": "none"}
"""GraphSAINT's own network, `saint_network.SaintGNN`: two convolutions and two dense layers."""
HISTORY = {"sampler": "bliss", "history": "nodes", "first_hop": "exact", "batch_size": 512}
WALKS = {"sampler": "saint-rw", "batch_size": 3000, "length": 2, "coverage": 50.0}
"""GraphSAINT's settings for PPI: 3,000 roots, walks of 2 hops, dropout 0.1, learning rate 0.01."""
REGULARISATION = {
    "": {"dropout": 0.0},
    ", dropout 0.1": {"dropout": 0.1},
    ", dropout 0.2": {"dropout": 0.2},
    ", weight decay 1e-5": {"dropout": 0.0, "weight_decay": 1e-5},
    ", weight decay 1e-4": {"dropout": 0.0, "weight_decay": 1e-4},
}
NETWORKS = {
    "GraphSAGE": {
        "bliss+history": {**SAGE, **HISTORY, "budgets": (512, 512)},
        "saint-rw": {**SAGE, **WALKS},
    },
    "GraphSAINT's network": {
        "bliss+history": {**AUTHORS, **HISTORY, "budgets": (512,)},
        "saint-rw": {**AUTHORS, **WALKS},
    },
}
SETTINGS: dict[str, dict[str, Any]] = {
    f"{network}: {sampler}{name}": {**settings, **regularisation}
    for network, samplers in NETWORKS.items()
    for sampler, settings in samplers.items()
    for name, regularisation in REGULARISATION.items()
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
    seed: int
    points: list[Point]


class Record(records.Record, frozen=True, kw_only=True):
    """All settings and runs."""

    machine: Machine
    times: list[Timed]
    curves: list[Curve]

    def time(self, name: str) -> Timed:
        """Times of a setting."""
        return next(one for one in self.times if one.name == name)


STORED = Part(Path(__file__).parent, "record", Record)


def build(name: str, dataset: Dataset, steps: int, seed: int) -> Task:
    """Task of a run."""
    config = resolve(**COMMON, **SETTINGS[name], steps=steps, seed=seed)
    make = build_task if name.startswith("GraphSAGE") else saint_task
    return make(config, dataset)


def train(name: str, seconds: int, seed: int, time: Timed, dataset: Dataset) -> Curve:
    """Train a setting for the steps that fit into some seconds, evaluating it now and then."""
    steps = int(1e3 * (seconds - time.setup_s) / time.step_ms)
    marks = {steps * (number + 1) // POINTS for number in range(POINTS)}
    task = build(name, dataset, steps, seed)
    stepper, points = Stepper(task), []
    for step, batch in enumerate(stepper.batches(), start=1):
        stepper.step(batch)
        if step in marks:
            score = evaluate(task, ("train", "val", "test"))
            named = {f"{split}_score": round(score[split], 5) for split in score}
            points.append(Point(step=step, **named))
            print(name, seconds, points[-1], flush=True)
    return Curve(name=name, seconds=seconds, seed=seed, points=points)


def best(found: Record, network: str) -> dict[str, Curve]:
    """The longest run of each sampler with the best validation score at its end."""
    chosen: dict[str, Curve] = {}
    own = [curve for curve in found.curves if curve.name.startswith(f"{network}:")]
    for curve in sorted(own, key=lambda one: (one.seconds, one.points[-1].val_score)):
        chosen[curve.name.partition(",")[0]] = curve
    return dict(sorted(chosen.items()))


def ends(found: Record) -> list[str]:
    """Scores at the end of every run, in the order of settings."""
    lines = [
        "| network | setting | seconds | seed | steps | training F1 | validation F1 | test F1 |",
        "|---" * 8 + "|",
    ]
    order = list(SETTINGS)
    for curve in sorted(found.curves, key=lambda one: (order.index(one.name), one.seconds)):
        end, (network, setting) = curve.points[-1], curve.name.split(": ")
        cells = [network, setting, str(curve.seconds), str(curve.seed), f"{end.step:,}"]
        cells += [f"{one:.3f}" for one in (end.train_score, end.val_score, end.test_score)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def course(found: Record, network: str) -> list[str]:
    """Scores over seconds of the best run of each sampler, side by side."""
    curves = best(found, network).values()
    names = [curve.name.partition(": ")[2] for curve in curves]
    heads = [f"{name}: seconds | validation F1 | test F1" for name in names]
    lines = [f"| {' | '.join(heads)} |", "|---" * 3 * len(names) + "|"]
    for points in zip(*(curve.points for curve in curves), strict=True):
        cells = [
            f"{found.time(curve.name).seconds(point.step):.0f} | {point.val_score:.3f} | "
            f"{point.test_score:.3f}"
            for curve, point in zip(curves, points, strict=True)
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def tables(found: Record) -> list[str]:
    """Ends of all runs, and the course of the best ones of each network."""
    lines = ends(found)
    for network in NETWORKS:
        lines += ["", f"{network}:", "", *course(found, network)]
    return [*lines, ""]


def main() -> None:
    """Measure times, or train a setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("times", "train"))
    parser.add_argument("setting", nargs="?", choices=SETTINGS)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_dataset("ppi", arguments.root)
    found = Record(machine=machine(), times=[], curves=[])
    found = STORED.read() if STORED.exists() else found
    if arguments.action == "train":
        name = arguments.setting
        curve = train(name, arguments.seconds, arguments.seed, found.time(name), dataset)
        found = STORED.read()
        STORED.write(msgspec.structs.replace(found, curves=[*found.curves, curve]))
        return
    for name in SETTINGS:
        if name not in {one.name for one in found.times}:
            setup_s, step_ms = measure(partial(build, name, dataset, 10**6, seed=0))
            print(name, setup_s, step_ms, flush=True)
            time = Timed(name=name, setup_s=setup_s, step_ms=step_ms)
            found = msgspec.structs.replace(found, times=[*found.times, time])
            STORED.write(found)


if __name__ == "__main__":
    main()
