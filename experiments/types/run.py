"""Accuracy and macro-F1 at equal seconds of training steps, on IMDB and ACM.

`python -m experiments.types.run times --root DATA` measures the step of every candidate; run it
alone on a machine. `... choose` trains each once for the choice of settings by validation. `...
train` trains the chosen ones with other seeds. `... variance` measures divisions of a budget and
masses. All add to results.json and skip what is there; `python -m experiments.types.page` writes
README.md.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from bliss.data import Dataset
from bliss.studies.provenance import machine
from bliss.train import Stepper
from bliss.train.assessment import assess
from bliss.train.evaluation import evaluate
from bliss.train.task import Task
from experiments.types.graphs import GRAPHS
from experiments.types.networks import NETWORKS, task_of
from experiments.types.results import Cell, Results, Size, Time, Trial, read, size_of, write

LABELLED = ("imdb", "acm")
SECONDS, GRID_SECONDS = 5.0, 2.5
"""Seconds of training steps of a run, and of one that settings are chosen by."""
SAMPLERS: dict[str, list[tuple[int, ...]]] = {
    "bliss": [(256, 128), (1024, 512)],
    "pladies": [(256, 128), (1024, 512)],
    "neighbor": [(2, 2), (5, 5)],
    "full": [()],
}
RECIPES = (  # learning rate, weight decay, dropout
    (0.005, 5e-4, 0.5),
    (0.002, 5e-4, 0.5),
    (0.005, 5e-5, 0.7),
    (0.002, 5e-3, 0.7),
)
SEEDS = range(5)
CHOOSING = 100
"""Seed of the runs that settings are chosen by."""
WARM_UP, ROUNDS = 5, 25
EVALUATIONS = 10
COMMON: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 4, "embedding": 32}
BATCH = {"imdb": 100, "acm": 60}


def task(dataset: Dataset, graph: str, model: str, sampler: str, **settings: Any) -> Task:
    """A task with the settings that all runs share."""
    named = {"dataset": graph, "sampler": sampler, "batch_size": BATCH[graph], "schedule": "linear"}
    return task_of(dataset, model, **COMMON, **named, **settings)


def candidates(graph: str) -> list[dict[str, Any]]:
    """Networks, samplers and sizes."""
    return [
        {"graph": graph, "model": model, "sampler": sampler, "budgets": list(budgets)}
        for model in NETWORKS
        for sampler, sizes in SAMPLERS.items()
        for budgets in sizes
    ]


def settings_of(size: dict[str, Any]) -> dict[str, Any]:
    """Settings of `task` from a size: full neighbourhoods have no budgets."""
    return {name: value for name, value in size.items() if name != "budgets" or value}


def measure(graph: str, dataset: Dataset) -> list[Time]:
    """Median milliseconds of a step of every candidate."""
    found = []
    for size in candidates(graph):
        stepper = Stepper(task(dataset, **settings_of(size)))
        taken: list[float] = []
        for batches in stepper.batches(lambda taken=taken: len(taken) >= WARM_UP + ROUNDS):
            started = perf_counter()
            stepper.step(batches)
            taken.append(1e3 * (perf_counter() - started))
        ms = stepper.step_ms()
        found.append(Time(**size, step_ms=median(taken[WARM_UP:]) + ms["sample"] + ms["gather"]))
    return found


def steps_of(step_ms: float, seconds: float = SECONDS) -> int:
    """Number of steps that fit into the seconds of a run."""
    return int(1e3 * seconds / step_ms)


def trained(dataset: Dataset, size: dict[str, Any], **settings: Any) -> tuple[Stepper, float]:
    """Train, and return to the best step by validation, whose score is returned, too."""
    stepper = Stepper(task(dataset, **settings_of(size), **settings))
    own, best = stepper.task, (-1.0, {}, None)
    steps = own.config.training.steps
    for batches in stepper.batches():
        stepper.step(batches)
        if stepper.steps % (steps // EVALUATIONS) == 0:
            score = evaluate(own, ("val",))["val"]
            if score > best[0]:
                rows = None if own.embedding is None else own.embedding.value.clone()
                best = score, {k: v.clone() for k, v in own.model.state_dict().items()}, rows
    own.model.load_state_dict(best[1])
    if own.embedding is not None and best[2] is not None:
        own.embedding.value.copy_(best[2])
    return stepper, best[0]


def choose(found: Results, graph: str, dataset: Dataset) -> None:
    """Train every candidate once with every recipe."""
    known = {(*size_of(one), one.lr, one.weight_decay, one.dropout) for one in found.tried}
    for size, (lr, weight_decay, dropout) in product(candidates(graph), RECIPES):
        own = Size(**size)
        if (*size_of(own), lr, weight_decay, dropout) in known:
            continue
        steps = steps_of(found.step_ms(own), GRID_SECONDS)
        recipe = {"lr": lr, "weight_decay": weight_decay, "dropout": dropout, "steps": steps}
        _, score = trained(dataset, size, **recipe, seed=CHOOSING)
        found.tried.append(Trial(**size, **recipe, val_score=score))
        write(found)


def train_all(found: Results, graph: str, dataset: Dataset, seed: int) -> None:
    """Train the chosen settings with a seed."""
    for model, sampler in product(NETWORKS, SAMPLERS):
        choice = found.chosen(graph, model, sampler)
        known = {(*size_of(one)[:3], one.seed) for one in found.runs}
        if choice is None or (graph, model, sampler, seed) in known:
            continue
        size = {name: getattr(choice, name) for name in ("graph", "model", "sampler", "budgets")}
        recipe = {name: getattr(choice, name) for name in ("lr", "weight_decay", "dropout")}
        recipe |= {"steps": steps_of(found.step_ms(choice))}
        stepper, score = trained(dataset, size, **recipe, seed=seed)
        test = assess(stepper.task, ("test",)).splits["test"].scores
        scores = {"accuracy": test["accuracy"], "macro_f1": test["macro_f1"], "val_score": score}
        edges = stepper.mean_sampled().edges
        found.runs.append(Cell(**size, **recipe, seed=seed, **scores, edges=edges))
        write(found)


def main() -> None:
    """Measure and train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["times", "choose", "train", "variance"])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = read() or Results(machine=machine())
    graphs = given.graphs or (GRAPHS if given.part == "variance" else LABELLED)
    datasets = {graph: GRAPHS[graph](given.root) for graph in graphs}
    if given.part == "train":
        for seed, graph in product(SEEDS, graphs):
            train_all(found, graph, datasets[graph], seed)
        return
    for graph, dataset in datasets.items():
        if given.part == "times" and graph not in {t.graph for t in found.times}:
            found.times.extend(measure(graph, dataset))
        elif given.part == "choose":
            choose(found, graph, dataset)
        elif given.part == "variance":
            from experiments.types.divisions import divisions

            found.divisions[:] = [one for one in found.divisions if one.graph != graph]
            found.divisions.extend(divisions(graph, dataset))
        write(found)


if __name__ == "__main__":
    main()
