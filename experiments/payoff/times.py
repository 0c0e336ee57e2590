"""Time of a step in every cell of a case, with samplers and budgets in turn on one thread.

`python -m experiments.payoff.times CASE --root DATA` writes results/CASE-times.json. Run it while
the machine does nothing else; only ratios within a file compare.
"""

from __future__ import annotations

import argparse
import gc
from itertools import product
from pathlib import Path
from statistics import median

import torch

from bliss.data import Dataset
from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, build_task
from experiments.payoff.run import CASES, HERE, SURVEYED, Case, config, missing

WARM_UP = 4
ROUNDS = 3
"""How often all budgets take turns, so that a slower minute of the machine slows all of them."""


class Time(records.Record, frozen=True, kw_only=True):
    """Time of a step of one cell."""

    sampler: str
    share: float
    step_ms: float  # median


class Times(records.Record, frozen=True, kw_only=True):
    """Times of all cells of a case."""

    machine: Machine
    times: list[Time]


def timed(case: Case, dataset: Dataset, share: float, steps: int) -> dict[str, list[float]]:
    """Milliseconds of some steps of each sampler at one share, with the samplers in turn."""
    steppers = {
        sampler: Stepper(build_task(config(case, sampler, share, 0), dataset))
        for _, one, sampler in missing(case, [0], [])
        if one == share
    }
    for name in set(SURVEYED) & set(steppers):  # a survey is the time of an evaluation
        steppers[name].sampler.survey(steppers[name].task.model, steppers[name].task.x)
    batches = {name: stepper.batches() for name, stepper in steppers.items()}
    for _ in range(WARM_UP + steps):
        for name, stepper in steppers.items():
            stepper.step(next(batches[name]))
    return {
        name: [1e3 * taken for taken in list(stepper.times["total"])[WARM_UP:]]
        for name, stepper in steppers.items()
    }


def main() -> None:
    """Measure a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--steps", type=int, default=5, help="steps timed in each round")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    case = CASES[arguments.case]
    dataset = case.load(arguments.root)
    found: dict[tuple[float, str], list[float]] = {}
    for _, share in product(range(ROUNDS), case.shares):
        for name, taken in timed(case, dataset, share, arguments.steps).items():
            found.setdefault((share, name), []).extend(taken)
        gc.collect()
    times = [
        Time(sampler=name, share=share, step_ms=median(taken))
        for (share, name), taken in found.items()
    ]
    for one in times:
        print(one.sampler, f"{one.share:.4f}", f"{one.step_ms:.1f} ms", flush=True)
    path = HERE / "results" / f"{arguments.case}-times.json"
    records.write(path, Times(machine=machine(), times=times))


if __name__ == "__main__":
    main()
