"""Test F1 at equal seconds, with and without influence.

`python -m experiments.variance.scores --root DATA` measures the time of a step of each sampler in
turn, trains each for the seconds that PLADIES takes for STEPS steps, and writes
results.json, from which `run.page` makes a table. Evaluations, with which `bliss` is
surveyed, are not counted: every sampler has as many.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import torch

from bliss.data import Dataset
from bliss.train import Stepper, TrainConfig, build_task, resolve
from bliss.train.evaluation import evaluate
from experiments.variance import results
from experiments.variance.run import COMMON, GRAPHS, NETWORKS, SURVEY_EVERY

STEPS, SEEDS = 300, (0, 1, 2, 3, 4)
CASES = {"ppi-sage": "hajek", "ppi-gatv2": "ht", "pubmed-sage": "hajek", "three-hops-sage": "ht"}
"""Graph and network, and the estimator with the smaller error of the gradient, or the recipe's."""
SAMPLERS: dict[str, dict[str, Any]] = {
    "pladies": {"sampler": "pladies"},
    "pladies+influence": {"sampler": "pladies", "influence": "prior"},
    "bliss, influence none": {"sampler": "bliss", "influence": "none"},
    "bliss": {"sampler": "bliss"},
}
ROUNDS, WARM_UP = 40, 5


def config(case: str, sampler: str, **more: Any) -> TrainConfig:
    """Settings of a run."""
    name, _, network = case.rpartition("-")
    graph = GRAPHS[name]
    budgets = tuple(b // 2 if network == "gatv2" else b for b in graph.budgets)
    return resolve(
        dataset=name,
        estimator=CASES[case],
        budgets=budgets,
        batch_size=256,
        schedule="linear",
        **COMMON,
        **NETWORKS[network],
        **graph.settings,
        **SAMPLERS[sampler],
        **more,
    )


def step_times(case: str, dataset: Dataset) -> dict[str, float]:
    """Median milliseconds of processor time of a step of each sampler, in turn."""
    steppers = {
        name: Stepper(build_task(config(case, name, steps=10**6, prefetch=0), dataset))
        for name in SAMPLERS
    }
    batches = {name: stepper.batches() for name, stepper in steppers.items()}
    taken: dict[str, list[float]] = {name: [] for name in steppers}
    for _ in range(WARM_UP + ROUNDS):
        for name, stepper in steppers.items():
            started = process_time()
            stepper.step(next(batches[name]))
            taken[name].append(process_time() - started)
    return {name: 1e3 * median(times[WARM_UP:]) for name, times in taken.items()}


def score(case: str, sampler: str, steps: int, seed: int, dataset: Dataset) -> float:
    """Test F1 after the last step."""
    task = build_task(config(case, sampler, steps=steps, seed=seed), dataset)
    stepper = Stepper(task)
    for batch in stepper.batches():
        stepper.step(batch)
        if stepper.sampler.learns_from_surveys and stepper.steps % SURVEY_EVERY == 0:
            stepper.sampler.survey(task.model, task.x)
    return evaluate(task, ("test",))["test"]


def main() -> None:
    """Measure the missing cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = results.read("scores")
    for case in CASES:
        if case in found:
            continue
        dataset = GRAPHS[case.rpartition("-")[0]].load(arguments.root)
        ms, rows = step_times(case, dataset), {}
        for name, own in ms.items():
            steps = round(STEPS * ms["pladies"] / own)
            scores = [score(case, name, steps, seed, dataset) for seed in SEEDS]
            rows[name] = {"step_ms": own, "steps": steps, "test_score": scores}
            print(case, name, rows[name], flush=True)
        found[case] = rows
        results.write("scores", found)


if __name__ == "__main__":
    main()
