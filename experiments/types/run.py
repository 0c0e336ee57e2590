"""Accuracy and macro-F1 at equal seconds of training steps, on IMDB, ACM and library.

`python -m experiments.types.run times --root DATA` measures the step of every candidate; run it
alone on a machine. `... choose` trains each once for the choice of settings by validation. `...
train` trains the chosen ones with other seeds. `... variance` measures divisions of a budget and
masses, `... sizes` policies that learn sizes of messages. The others add to results.json and skip
what is there; these replace it. `python -m experiments.types.page` writes
README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from bliss.data import Dataset
from bliss.samplers import Sampler
from bliss.studies.provenance import machine
from bliss.train import Stepper
from bliss.train.assessment import assess
from bliss.train.evaluation import evaluate
from bliss.train.task import Task
from experiments.types.cases import CASES, NETWORKS, ROWS, rows_of
from experiments.types.graphs import GRAPHS
from experiments.types.networks import task_of
from experiments.types.results import STORED, Cell, Results, Size, Time, Trial, size_of

CHOOSING = 100
"""Seed of the runs that settings are chosen by."""
WARM_UP, ROUNDS = 5, 25
LEAST_ROUNDS, MOST_SECONDS = 5, 10.0
"""Slow steps are timed fewer times: until so many seconds have passed, but at least so often."""
SIZED = ("rsage", "rgat")
"""Networks whose sizes of messages are measured."""
COMMON: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 4, "schedule": "linear"}


def task(dataset: Dataset, size: Size, **settings: Any) -> Task:
    """A task with the settings that all runs share."""
    sampler, options = ROWS[size.sampler]
    case = CASES[size.graph]
    named = {"dataset": size.graph, "sampler": sampler, "batch_size": case.batch}
    if size.budgets:  # full neighbourhoods have none
        named["budgets"] = size.budgets
    return task_of(dataset, size.model, **COMMON, **case.options, **named, **options, **settings)


def candidates(graph: str, networks: Sequence[str] = NETWORKS) -> list[Size]:
    """Networks, samplers and sizes."""
    return [
        Size(graph=graph, model=model, sampler=sampler, budgets=list(budgets))
        for model in networks
        for sampler in rows_of(graph, model)
        for budgets in CASES[graph].sizes[sampler]
    ]


def fields(size: Size) -> dict[str, Any]:
    """The fields of a size."""
    return {name: getattr(size, name) for name in Size.__struct_fields__}


def measure(dataset: Dataset, size: Size) -> Time:
    """Median milliseconds of a step, and seconds of preparation.

    The sampler is built twice, because the first time includes loading of compiled kernels.
    """
    for _ in range(2):
        own = task(dataset, size)
        started = perf_counter()
        stepper = Stepper(own)
        setup = perf_counter() - started
    taken: list[float] = []

    def is_done() -> bool:
        number = len(taken) - WARM_UP
        is_slow = number >= LEAST_ROUNDS and sum(taken) > 1e3 * MOST_SECONDS
        return is_slow or number >= ROUNDS

    for batches in stepper.batches(is_done):
        started = perf_counter()
        stepper.step(batches)
        taken.append(1e3 * (perf_counter() - started))
    ms = stepper.step_ms()
    step_ms = median(taken[WARM_UP:]) + ms["sample"] + ms["gather"]
    return Time(**fields(size), step_ms=step_ms, setup_s=setup)


def stepper_of(own: Task, make: Callable[[Task], Sampler] | None = None) -> Stepper:
    """A stepper with the sampler of the settings or another one."""
    stepper = Stepper(own)
    if make is not None:
        stepper.sampler = make(own)
        stepper.loader = stepper.build_loader(own.config.training.batch_size)
    return stepper


def trained(
    dataset: Dataset, size: Size, make: Callable[[Task], Sampler] | None = None, **settings: Any
) -> tuple[Stepper, float]:
    """Train, and return to the best step by validation, whose score is returned, too.

    make: the sampler, if not that of the settings.
    """
    stepper = stepper_of(task(dataset, size, **settings), make)
    own, best = stepper.task, (-1.0, {}, None)
    every = max(own.config.training.steps // CASES[size.graph].evaluations, 1)
    for batches in stepper.batches():
        stepper.step(batches)
        if stepper.steps % every == 0:
            score = evaluate(own, ("val",))["val"]
            if score > best[0]:
                rows = None if own.embedding is None else own.embedding.value.clone()
                best = score, {k: v.clone() for k, v in own.model.state_dict().items()}, rows
    own.model.load_state_dict(best[1])
    if own.embedding is not None and best[2] is not None:
        own.embedding.value.copy_(best[2])
    return stepper, best[0]


def choose(found: Results, size: Size, dataset: Dataset) -> None:
    """Train a candidate once with every recipe."""
    known = {(*size_of(one), one.lr, one.weight_decay, one.dropout) for one in found.tried}
    case = CASES[size.graph]
    for lr, weight_decay, dropout in case.recipes[size.model]:
        if (*size_of(size), lr, weight_decay, dropout) in known:
            continue
        steps = found.time(size).steps(case.grid_seconds)
        recipe = {"lr": lr, "weight_decay": weight_decay, "dropout": dropout, "steps": steps}
        _, score = trained(dataset, size, **recipe, seed=CHOOSING)
        print(*size_of(size), recipe, score, flush=True)
        found.tried.append(Trial(**fields(size), **recipe, val_score=score))
        STORED.write(found)


def train(found: Results, graph: str, model: str, dataset: Dataset, seed: int) -> None:
    """Train the chosen settings of every sampler with a seed."""
    for sampler in rows_of(graph, model):
        choice = found.chosen(graph, model, sampler)
        known = {(*size_of(one)[:3], one.seed) for one in found.runs}
        if choice is None or (graph, model, sampler, seed) in known:
            continue
        recipe = {name: getattr(choice, name) for name in ("lr", "weight_decay", "dropout")}
        recipe |= {"steps": found.time(choice).steps(CASES[graph].seconds)}
        stepper, score = trained(dataset, choice, **recipe, seed=seed)
        test = assess(stepper.task, ("test",)).splits["test"].scores
        scores = {"accuracy": test["accuracy"], "macro_f1": test["macro_f1"], "val_score": score}
        edges = stepper.mean_sampled().edges
        found.runs.append(Cell(**fields(choice), **recipe, seed=seed, **scores, edges=edges))
        print(graph, model, sampler, seed, scores, flush=True)
        STORED.write(found)


def keep(known: list[Any], found: list[Any]) -> None:
    """Put new records in the place of those of the same graph and network."""
    new = {(one.graph, one.model) for one in found}
    known[:] = [one for one in known if (one.graph, one.model) not in new] + found


def main() -> None:
    """Measure and train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["times", "choose", "train", "variance", "sizes"])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = STORED.read() if STORED.exists() else Results(machine=machine())
    datasets = {graph: GRAPHS[graph](given.root) for graph in given.graphs}
    if given.part == "train":
        for seed, graph in product(range(max(CASES[g].seeds for g in datasets)), datasets):
            for model in given.networks if seed < CASES[graph].seeds else ():
                train(found, graph, model, datasets[graph], seed)
        return
    for graph, dataset in datasets.items():
        if given.part in ("variance", "sizes"):
            from experiments.types import divisions, learnt_sizes

            for model in (one for one in given.networks if one in SIZED):
                if given.part == "variance":
                    keep(found.divisions, divisions.divisions(graph, model, dataset))
                else:
                    keep(found.learnt_sizes, [learnt_sizes.measure(found, graph, model, dataset)])
                STORED.write(found)
            continue
        for size in candidates(graph, given.networks):
            if given.part == "choose":
                choose(found, size, dataset)
            elif size_of(size) not in [size_of(time) for time in found.times]:
                found.times.append(measure(dataset, size))
                print(found.times[-1], flush=True)
                STORED.write(found)


if __name__ == "__main__":
    main()
