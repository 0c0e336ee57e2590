"""The demonstration: bliss beside neighbour sampling, in the same seconds, on built-in graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from bliss.data import Dataset
from bliss.data.synthetic import make_communities
from bliss.train import RunResult, Stepper, TrainConfig, Trainer, build_task, resolve

WARM_UP, PILOT_SECONDS = 3, 0.4
"""Steps before those of a pilot that are timed, and how long it takes."""


@dataclass(frozen=True)
class Exercise:
    """Something to learn, and the settings of bliss for it; the others have the same network."""

    name: str
    graph: Callable[[], Dataset]
    network: Mapping[str, Any]
    sampler: Mapping[str, Any]
    fanouts: tuple[int, ...] = (5, 10)  # of neighbour sampling, per node, layer and relation


@dataclass(frozen=True)
class Attempt:
    """What one sampler reached."""

    exercise: str
    sampler: str
    folder: Path
    result: RunResult


TYPES = ("paper", "author", "term")
NETWORK = {"layers": 3, "hidden": 128, "batch_size": 512, "lr": 0.005}


def communities() -> Dataset:
    """The built-in graph: 20,000 nodes in 10 classes."""
    return make_communities("synthetic", seed=0)


def circles() -> Dataset:
    """The same with 200 small classes, within which most links are."""
    return make_communities("circles", seed=0, num_classes=200, at_home=0.95)


def typed() -> Dataset:
    """The built-in graph with three types of nodes and an edge type for each pair of them."""
    plain = communities()
    kind = np.random.default_rng(0).choice(3, plain.graph.num_nodes, p=(0.5, 0.25, 0.25))
    place = np.empty_like(kind)  # of each node within its type
    data = HeteroData()
    for number, name in enumerate(TYPES):
        members = np.flatnonzero(kind == number)
        place[members] = np.arange(members.size)
        data[name].x = plain.x[members]
        if name == TYPES[0]:
            data[name].y = plain.y[members]
    source, target = plain.graph.pairs
    for first, second in product(range(3), repeat=2):
        edges = np.flatnonzero(
            (kind[source] == first) & (kind[target] == second) & (source != target)
        )
        ends = np.stack([place[source[edges]], place[target[edges]]])
        data[TYPES[first], "to", TYPES[second]].edge_index = torch.from_numpy(ends)
    return Dataset.from_data(data, "types")


EXERCISES = (
    Exercise("labels with attention (GATv2)", communities, {"model": "gatv2", **NETWORK}, {}),
    Exercise(
        "labels with a history (SAGE)",
        communities,
        {"model": "sage", **NETWORK},
        {"history": "nodes", "budgets": (512, 512)},
    ),
    Exercise(
        "links (SAGE)",
        circles,
        {"model": "sage", "task": "link", **NETWORK, "hidden": 64},
        {"history": "none"},
    ),
    Exercise(
        "heterogeneous graph (relational SAGE)",
        typed,
        {"model": "rsage", **NETWORK},
        {},
        fanouts=(1, 3),
    ),
)


def demonstrate(seconds: float, out: Path) -> Iterator[Attempt]:
    """Train each exercise with bliss and with neighbour sampling, for the same time each.

    A pilot measures the time of a step, from which the number of steps follows; the learning rate
    falls linearly to 0 over them. Evaluations are not counted, and teach the policy nothing.

    Parameters
    ----------
    seconds
        Training time of one network.
    out
        Folder for the runs.
    """
    for number, exercise in enumerate(EXERCISES):
        dataset = exercise.graph()
        samplers = {"bliss": {"sampler": "bliss", **exercise.sampler}}
        for fanout in exercise.fanouts:
            budgets = (fanout,) * exercise.network["layers"]
            samplers[f"neighbour sampling, {fanout}"] = {"sampler": "neighbor", "budgets": budgets}
        for name, sampler in samplers.items():
            settings = {"dataset": dataset.name, **exercise.network, **sampler}
            steps = max(round(1000 * seconds / step_ms(resolve(**settings), dataset)), 3)
            timed = {"steps": steps, "evaluate_every": -(-steps // 3), "schedule": "linear"}
            config = resolve(**settings, **timed, survey=False)
            folder = out / f"{number + 1}-{name.replace(', ', '-').replace(' ', '-')}"
            result = Trainer(config, dataset, folder, lambda _: None).run()
            yield Attempt(exercise.name, name, folder, result)


def step_ms(config: TrainConfig, dataset: Dataset) -> float:
    """Median time of a step in milliseconds, from a pilot whose weights are thrown away."""
    stepper = Stepper(build_task(config, dataset))
    times: list[float] = []
    for number, batches in enumerate(stepper.batches()):
        start = perf_counter()
        stepper.step(batches)
        if number >= WARM_UP:
            times.append(1000 * (perf_counter() - start))
        if sum(times) > 1000 * PILOT_SECONDS:
            break
    return median(times)
