"""Time of a whole training step on one and on two threads, with and without prefetch.

The 233k graph with 602 random features and 41 classes, the policy node, batches of 256, budgets
4096/2048/1024, hidden 256, 3 layers. Settings take turns of STEPS steps; a time is the median of a
turn, and the lowest of all turns, because other work on the machine delays two threads more than
one. OMP_NUM_THREADS must be at least 2.
"""

from __future__ import annotations

from itertools import product
from statistics import median
from time import perf_counter
from typing import Any

import torch

from benchmarks.graphs import power_law
from benchmarks.step import random_dataset
from bliss.data import Dataset
from bliss.train import PARTS, Stepper, TrainConfig, build_task

BUDGETS = (4096, 2048, 1024)
NODES, EDGES, FEATURES, CLASSES = 232_965, 11_606_919, 602, 41
WARM_UP = 3
STEPS = 10
MODELS = ("sage", "gatv2")


def run(repeats: int) -> dict[str, Any]:
    """Time both networks; returns what is written as JSON. `repeats`: steps of each setting."""
    dataset = random_dataset(power_law(NODES, EDGES), FEATURES, CLASSES, multilabel=False)
    turns = max(1, repeats // STEPS)
    result: dict[str, Any] = {"settings": {"budgets": BUDGETS, "turns": turns, "steps": STEPS}}
    for model in MODELS:
        result[model] = measure(dataset, model, turns)
        print(model, result[model], flush=True)
    return result


def measure(dataset: Dataset, model: str, turns: int) -> dict[str, Any]:
    """Milliseconds of a step for each setting, and their ratios."""
    before = torch.get_num_threads()
    settings = list(product((0, 1), (1, 2)))  # prefetch, threads
    steppers = {prefetch: _stepper(dataset, model, prefetch) for prefetch in (0, 1)}
    taken: dict[tuple[int, int], list[dict[str, float]]] = {one: [] for one in settings}
    for prefetch, threads in settings * turns:
        torch.set_num_threads(threads)
        taken[prefetch, threads].append(_turn(steppers[prefetch]))
    torch.set_num_threads(before)
    best = {key: min(found, key=lambda one: one["wall"]) for key, found in taken.items()}
    wall = {key: one["wall"] for key, one in best.items()}
    return {
        "two_threads_over_one": wall[0, 2] / wall[0, 1],
        "two_threads_over_one_with_prefetch": wall[1, 2] / wall[1, 1],
        "prefetch_over_none_on_two_threads": wall[1, 2] / wall[0, 2],
        "step_ms": {f"prefetch {p}, threads {t}": one for (p, t), one in best.items()},
    }


def _stepper(dataset: Dataset, model: str, prefetch: int) -> Stepper:
    own = {"policy": "node", "budgets": BUDGETS, "prefetch": prefetch}
    config = TrainConfig.of(model=model, steps=10**6, dataset="x", **own)
    return Stepper(build_task(config, dataset))


def _turn(stepper: Stepper) -> dict[str, float]:
    """Medians of some steps in ms: from batch to batch, and of each part."""
    batches = stepper.batches()
    walls = []
    for _ in range(WARM_UP + STEPS):
        started = perf_counter()
        stepper.step(next(batches))
        walls.append(perf_counter() - started)
    batches.close()  # type: ignore[attr-defined]
    parts = {part: median(list(stepper.times[part])[-STEPS:]) * 1e3 for part in PARTS[:-1]}
    return {"wall": median(walls[WARM_UP:]) * 1e3, **parts}
