"""Time of a whole training step, part by part, and what a bandit adds to it.

Graph (b) with 602 random features and 41 classes, graph (c) with 300 and 100 labels per node;
batches of 256, budgets 4096/2048/1024, hidden 256, 3 layers, one thread. PLADIES, exp3, node and
node without influence train in turn on the same seeds; numbers are medians, ratios within the run.

With SAGE also, in a second pass without dropout and a third with dropout 0.1: PLADIES with an
exact first hop, at the same budgets of the sampled layers (2048/1024), and BLISS with each kind of
history at a quarter of them (512/256). With dropout, a history doubles the work of the network.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.graphs import power_law
from bliss import Graph
from bliss.arrays import NOTHING
from bliss.data import Dataset
from bliss.feedback import Survey
from bliss.train import PARTS, Stepper, TrainConfig, build_task
from bliss.train.peak_memory import forget_peak, peak_mb

BUDGETS = (4096, 2048, 1024)
WARM_UP = 8
SAMPLERS: dict[str, dict[str, Any]] = {
    "pladies": {"sampler": "pladies", "budgets": BUDGETS},
    "exp3": {"policy": "exp3", "budgets": BUDGETS},
    "node": {"policy": "node", "budgets": BUDGETS},
    "node_without_influence": {"policy": "node", "influence": "none", "budgets": BUDGETS},
}
QUARTER = tuple(budget // 4 for budget in BUDGETS[1:])
LESS_TO_SAMPLE: dict[str, dict[str, Any]] = {
    "pladies": {"sampler": "pladies", "budgets": BUDGETS},
    "first_hop": {"sampler": "pladies", "first_hop": "exact", "budgets": BUDGETS[1:]},
    "history": {"history": "nodes", "budgets": QUARTER},
    "half_history": {"history": "nodes", "history_type": "float16", "budgets": QUARTER},
    "survey_history": {"history": "surveys", "budgets": QUARTER},
}


GRAPHS = {
    "power_law_233k": (232_965, 11_606_919, 602, 41, False),
    "power_law_717k": (716_847, 14_300_000, 300, 100, True),
}
"""Nodes, edges, features, classes, and whether a node may have several of them."""


def run(repeats: int, parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Time the graphs named, by default both, and both networks; returns what becomes JSON."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"settings": {"budgets": BUDGETS, "batches": repeats, "threads": 1}}
    for name in parts or GRAPHS:
        nodes, edges, features, classes, multilabel = GRAPHS[name]
        dataset = random_dataset(power_law(nodes, edges), features, classes, multilabel)
        result[name] = {model: measure(dataset, model, repeats) for model in ("sage", "gatv2")}
        print(name, result[name], flush=True)
        del dataset
        gc.collect()
    return result


def random_dataset(graph: Graph, features: int, classes: int, multilabel: bool) -> Dataset:
    """Random features and labels on a graph."""
    generator = torch.Generator().manual_seed(0)
    nodes = graph.num_nodes
    x = torch.randn(nodes, features, generator=generator)
    if multilabel:
        y = (torch.rand(nodes, classes, generator=generator) < 0.1).float()
    else:
        y = torch.randint(0, classes, (nodes,), generator=generator)
    order = torch.from_numpy(np.random.default_rng(0).permutation(nodes))
    splits = {"train": order[: nodes // 2], "val": order[-20:-10], "test": order[-10:]}
    return Dataset("random", graph, x, y, splits, classes)


def measure(dataset: Dataset, model: str, repeats: int) -> dict[str, Any]:
    """Parts of a step in ms for each policy, their ratios, and growth with the budget."""
    device = torch.device("cpu")
    forget_peak(device)
    parts = steps(dataset, model, repeats, SAMPLERS)
    peak = peak_mb(device)  # graph, features, and all steppers
    totals = {name: taken["total"] for name, taken in parts.items()}
    twice = {"policy": "node", "budgets": tuple(2 * b for b in BUDGETS)}
    doubled = steps(dataset, model, repeats // 2, {"node": twice})
    node = parts["node"]
    return {
        "node_over_pladies": totals["node"] / totals["pladies"],
        "exp3_over_pladies": totals["exp3"] / totals["pladies"],
        "influence_over_none": totals["node"] / totals["node_without_influence"],
        **(less_to_sample(dataset, repeats) if model == "sage" else {}),
        "sampling_share": (node["sample"] + node["update"]) / node["total"],
        "step_ms": parts,
        "growth_when_budget_doubles": {p: doubled["node"][p] / node[p] for p in PARTS},
        "peak_mb": peak,
    }


def less_to_sample(dataset: Dataset, repeats: int) -> dict[str, Any]:
    """Steps with an exact first hop and with histories, over those of PLADIES."""
    found: dict[str, Any] = {}
    for suffix, dropout in (("", 0.0), ("_with_dropout", 0.1)):
        settings = {name: own | {"dropout": dropout} for name, own in LESS_TO_SAMPLE.items()}
        parts = steps(dataset, "sage", repeats, settings)
        for name in list(LESS_TO_SAMPLE)[1:]:
            ratio = parts[name]["total"] / parts["pladies"]["total"]
            found[f"{name}_over_pladies{suffix}"] = ratio
        found[f"less_to_sample_ms{suffix}"] = parts
    return found


def steps(
    dataset: Dataset, model: str, repeats: int, settings: dict[str, dict[str, Any]]
) -> dict[str, dict[str, float]]:
    """Medians of each part in ms; the steppers take turns."""
    steppers = {
        name: Stepper(
            build_task(TrainConfig.of(model=model, steps=10**6, dataset="x", **own), dataset)
        )
        for name, own in settings.items()
    }
    for stepper in steppers.values():
        survey_at_random(stepper)
    batches = {name: stepper.batches() for name, stepper in steppers.items()}
    for _ in range(WARM_UP + repeats):
        for name, stepper in steppers.items():
            stepper.step(next(batches[name]))
    return {
        name: {part: median(list(stepper.times[part])[WARM_UP:]) * 1e3 for part in PARTS}
        for name, stepper in steppers.items()
    }


def survey_at_random(stepper: Stepper) -> None:
    """Write a history of every node, so that sums are looked up and no row is empty."""
    history, generator = stepper.sampler.history, np.random.default_rng(0)
    for layer in range(stepper.sampler.layers if history else 0):
        shape = history.value(layer).shape
        inputs = generator.standard_normal(shape, dtype=np.float32)
        history.survey(layer, Survey(NOTHING, input=inputs))
