"""Samplers at the unequal budgets that `bliss advise` has found for them, on PPI with GraphSAGE.

`bliss advise --dataset ppi --model sage --batch-size 512` shows each kind of sampler at its own
best budgets. `python -m experiments.payoff.advised --root DATA` trains three of them as in the case
ppi-sage, times them in turn with `bliss` and full neighbourhoods at share 1, and writes
results/ppi-sage-advised.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, TrainConfig, build_task, resolve
from bliss.train.evaluation import evaluate
from experiments.payoff.run import CASES, HERE, config

CASE = CASES["ppi-sage"]
ADVISED = {
    "bliss+history": {"sampler": "bliss", "history": "nodes", "budgets": (1024, 512)},
    "bliss+first_hop": {
        "sampler": "bliss",
        "estimator": "hajek",
        "first_hop": "exact",
        "budgets": (4096, 256),
    },
    "pladies": {"sampler": "pladies", "estimator": "hajek", "budgets": (16384, 4096, 128)},
}
SEEDS = (0, 1, 2)
ROUNDS, WARM_UP, STEPS = 3, 4, 8


class Row(records.Record, frozen=True, kw_only=True):
    """Result of one sampler; scores by seed, empty if it was only timed."""

    name: str
    budgets: list[int]
    step_ms: float
    test_score: list[float]


class Advised(records.Record, frozen=True, kw_only=True):
    """Results of all samplers."""

    machine: Machine
    rows: list[Row]


def score(name: str, dataset: Dataset, seed: int) -> float:
    """Test F1 after training."""
    task = build_task(resolve(**CASE.settings, **ADVISED[name], seed=seed), dataset)
    stepper = Stepper(task)
    for batch in stepper.batches():
        stepper.step(batch)
    return evaluate(task, ("test",))["test"]


def times(configs: dict[str, TrainConfig], dataset: Dataset) -> dict[str, float]:
    """Median milliseconds of a step of each, in turn."""
    found: dict[str, list[float]] = {name: [] for name in configs}
    for _ in range(ROUNDS):
        steppers = {name: Stepper(build_task(one, dataset)) for name, one in configs.items()}
        batches = {name: stepper.batches() for name, stepper in steppers.items()}
        for _ in range(WARM_UP + STEPS):
            for name, stepper in steppers.items():
                stepper.step(next(batches[name]))
        for name, stepper in steppers.items():
            found[name] += list(stepper.times["total"])[WARM_UP:]
    return {name: 1e3 * median(taken) for name, taken in found.items()}


def main() -> None:
    """Train, time and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_dataset("ppi", arguments.root)
    configs = {name: resolve(**CASE.settings, **one, seed=0) for name, one in ADVISED.items()}
    configs |= {f"{name}, share 1": config(CASE, name, 1.0, 0) for name in ("bliss", "full")}
    ms = times(configs, dataset)
    rows = []
    for name, one in configs.items():
        scores = [score(name, dataset, seed) for seed in SEEDS] if name in ADVISED else []
        budgets = list(one.sampler.budgets)
        rows.append(Row(name=name, budgets=budgets, step_ms=ms[name], test_score=scores))
        print(rows[-1], flush=True)
    path = HERE / "results" / "ppi-sage-advised.json"
    records.write(path, Advised(machine=machine(), rows=rows))


if __name__ == "__main__":
    main()
