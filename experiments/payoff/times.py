"""Time of a step in every cell of a case, with the samplers in turn on one thread.

`python -m experiments.payoff.times CASE --root DATA` writes results/CASE-times.json. Run it while
the machine does nothing else; only ratios within a file compare.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from statistics import median

import torch

from bliss import records
from bliss.studies.records import Machine
from bliss.studies.runs import machine
from bliss.train import Learner, build_task
from experiments.payoff.run import CASES, HERE, SURVEYED, config, missing

WARM_UP = 5


class Time(records.Record, frozen=True, kw_only=True):
    """Time of a step of one cell."""

    sampler: str
    share: float
    step_ms: float  # median


class Times(records.Record, frozen=True, kw_only=True):
    """Times of all cells of a case."""

    machine: Machine
    times: list[Time]


def main() -> None:
    """Measure a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--steps", type=int, default=15, help="steps timed after warm-up")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    case = CASES[arguments.case]
    dataset = case.load(arguments.root)
    times = []
    for share in case.shares:
        cells = [cell for cell in missing(case, [0], []) if cell[1] == share]
        learners = {
            sampler: Learner(build_task(config(case, sampler, share, 0), dataset))
            for _, _, sampler in cells
        }
        for name in set(SURVEYED) & set(learners):  # a survey is the time of an evaluation
            learners[name].sampler.survey(learners[name].task.model, learners[name].task.x)
        batches = {name: learner.batches() for name, learner in learners.items()}
        for _ in range(WARM_UP + arguments.steps):
            for name, learner in learners.items():
                learner.learn(next(batches[name]))
        for name, learner in learners.items():
            taken = median(list(learner.times["total"])[WARM_UP:]) * 1e3
            times.append(Time(sampler=name, share=share, step_ms=taken))
            print(name, f"{share:.4f}", f"{taken:.1f} ms", flush=True)
        del learners, batches
        gc.collect()
    path = HERE / "results" / f"{arguments.case}-times.json"
    records.write(path, Times(machine=machine(), times=times))


if __name__ == "__main__":
    main()
