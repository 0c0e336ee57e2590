"""Runs: `python -m experiments.links.run CASE... --root DATA` trains what is missing.

`--times` measures the steps of "seconds" instead, whose numbers of steps follow from it, and stores
them in results.json: run it once, alone on the machine, before them. Every run is written to runs/
when it is finished; `python -m experiments.links.page` adds them to results.json and writes
README.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec
import torch

from bliss.data import Dataset
from bliss.storage import records
from bliss.train import RunResult, Stepper, Trainer, build_task
from experiments.links.cases import CASES, SECONDS, config

HERE = Path(__file__).parent
RUNS, RESULTS = HERE / "runs", HERE / "results.json"
WARM_UP, TIMED = 5, 25


class Run(records.Record, frozen=True, kw_only=True):
    """A finished run."""

    case: str
    variant: str
    loss: float
    """Mean loss of the last steps."""
    wall: float
    """Seconds of the whole run, on a machine with other work."""
    result: RunResult


class Results(records.Record, frozen=True, kw_only=True):
    """results.json: step times and all finished runs."""

    times: dict[str, float] = msgspec.field(default_factory=dict)
    """Median milliseconds of a step, by variant of "seconds"."""
    runs: list[Run] = msgspec.field(default_factory=list)


def stored() -> Results:
    """What results.json holds."""
    if not RESULTS.exists():
        return Results()
    return records.read(RESULTS, Results, "collect it again")


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--times", action="store_true", help="measure steps")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    RUNS.mkdir(exist_ok=True)
    for case in arguments.cases:
        dataset = CASES[case].load(arguments.root)
        if arguments.times:
            measure(case, dataset)
            continue
        for seed in CASES[case].seeds:
            for variant in CASES[case].variants:
                if not path(case, variant, seed).exists():
                    train(case, variant, seed, dataset)


def path(case: str, variant: str, seed: int) -> Path:
    """File of a run."""
    return RUNS / f"{case}-{variant.replace(', ', '-')}-{seed}.json"


def train(case: str, variant: str, seed: int, dataset: Dataset) -> None:
    """Train one run in a temporary folder and store its result."""
    more = {"steps": steps(variant)} if case == "seconds" else {}
    started = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config(case, variant, seed, **more), dataset, Path(folder) / "run", print)
        result = trainer.run()
        loss = trainer.folder.metrics()[-1].loss
    run = Run(case=case, variant=variant, loss=loss, wall=perf_counter() - started, result=result)
    records.write(path(case, variant, seed), run)
    shown = {name: round(value, 4) for name, value in result.scores["test"].items()}
    print(case, variant, seed, shown, f"{run.wall:.0f} s", flush=True)


def steps(variant: str) -> int:
    """Steps of a run of "seconds"."""
    return max(1, int(SECONDS * 1e3 / stored().times[variant]))


def measure(case: str, dataset: Dataset) -> None:
    """Median milliseconds of a step of each variant, in turns."""
    steppers = {}
    for name in CASES[case].variants:
        task = build_task(config(case, name, 0, steps=10**6), dataset)
        steppers[name] = Stepper(task)
    taken: dict[str, list[float]] = {name: [] for name in steppers}
    batches = {name: one.batches() for name, one in steppers.items()}
    for number in range(WARM_UP + TIMED):
        for name, stepper in steppers.items():
            stepper.step(next(batches[name]))
            if number >= WARM_UP:
                taken[name].append(stepper.times["total"][-1] * 1e3)
    found = {name: round(median(values), 3) for name, values in taken.items()}
    records.write(RESULTS, msgspec.structs.replace(stored(), times=found))
    print(found)


if __name__ == "__main__":
    main()
