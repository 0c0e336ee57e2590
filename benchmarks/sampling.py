"""How long a batch takes to sample, and a policy to update, against the floor.

Batches of 256 seeds, budgets 4096/2048/1024, one thread. Each batch is timed under the floor and
every sampler in turn, a different one first each time, so that all see the same seeds and the same
state of the machine, and each after an untimed pass of its own, so that all are as warm; the
numbers are ratios of medians over the batches. The warm-up is long enough
for the bandits to have touched most rows, as they have in all but the first steps of training.
"""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.floor import floor
from benchmarks.graphs import flickr, power_law
from bliss import PLADIES, Bliss, Block, Graph, LayerSampler, Observation

BUDGETS = [4096, 2048, 1024]
BATCH = 256
WARM_UP = 80
REPEATS = 41
NODES, EDGES = 232_965, 11_606_919

GRAPHS: dict[str, Callable[[], Graph]] = {
    "flickr": flickr,
    "power_law_233k": lambda: power_law(NODES, EDGES),
    "power_law_717k": lambda: power_law(716_847, 14_300_000),
}


def run(repeats: int = REPEATS, parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Time the graphs named, and growth, by default all; returns what is written as JSON."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {
        "settings": {"batch": BATCH, "budgets": BUDGETS, "batches": repeats, "threads": 1},
        "graphs": {},
    }
    parts = parts or [*GRAPHS, "growth"]
    for name in (name for name in parts if name in GRAPHS):
        result["graphs"][name] = measure(GRAPHS[name](), repeats)
        print(name, _rounded(result["graphs"][name]), flush=True)
        gc.collect()
    if "growth" in parts:
        result["growth"], more = growth(repeats)
        result |= more
        print("growth", result["growth"], more, flush=True)
    return result


def measure(graph: Graph, repeats: int) -> dict[str, float]:
    """The ratios of one graph."""
    samplers: dict[str, LayerSampler] = {
        "pladies": PLADIES(graph, BUDGETS),
        "influence": PLADIES(graph, BUDGETS, influence="prior"),
        "exp3": Bliss(graph, BUDGETS, policy="exp3"),
        "exp3_released": Bliss(graph, BUDGETS, policy="exp3-released"),
        "node": Bliss(graph, BUDGETS, policy="node"),
        "node_without_influence": Bliss(graph, BUDGETS, policy="node", influence="none"),
    }
    word = np.ones(graph.num_nodes, np.float32)
    sizes = np.random.default_rng(1).lognormal(0, 0.5, graph.num_nodes).astype(np.float32)
    names = ["floor", *samplers]
    times: dict[str, list[float]] = {}
    frontier: dict[str, list[int]] = {"pladies": [], "influence": []}
    for step, seeds in enumerate(_batches(graph, WARM_UP + repeats)):
        targets = [block.dst.numpy() for block in samplers["pladies"].sample(seeds, step)]
        first = step % len(names)
        for name in names[first:] + names[:first]:
            if name == "floor":
                _timed(times, name, _floor, graph, targets, word)
                continue
            samplers[name].sample(seeds, step)  # its own frontier, untimed: others warm their own
            blocks = _timed(times, name, samplers[name].sample, seeds, step)
            if name in frontier:
                degrees = (graph.degree[block.dst.numpy()].sum() for block in blocks)
                frontier[name].append(int(sum(degrees)))
            seen = [Observation(torch.from_numpy(sizes[block.src.numpy()])) for block in blocks]
            pairs = zip(blocks, seen, strict=True)
            blocks = [replace(block, observation=one) for block, one in pairs]
            _timed(times, f"{name}_update", samplers[name].update, blocks)
    middle = {name: median(values[WARM_UP:]) for name, values in times.items()}
    edges = {name: median(counts[WARM_UP:]) for name, counts in frontier.items()}
    return {
        "pladies_over_floor": middle["pladies"] / middle["floor"],
        "influence_over_pladies": middle["influence"] / middle["pladies"],
        "influence_frontier_over_pladies": edges["influence"] / edges["pladies"],
        "influence_over_none_of_node": middle["node"] / middle["node_without_influence"],
        "exp3_over_pladies": middle["exp3"] / middle["pladies"],
        "node_over_pladies": middle["node"] / middle["pladies"],
        "exp3_update_over_sample": middle["exp3_update"] / middle["exp3"],
        "exp3_released_over_pladies": middle["exp3_released"] / middle["pladies"],
        "exp3_released_update_over_sample": middle["exp3_released_update"]
        / middle["exp3_released"],
        "node_update_over_sample": middle["node_update"] / middle["node"],
        "pladies_ms": middle["pladies"] * 1e3,
        "frontier_edges": edges["pladies"],
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def growth(repeats: int) -> tuple[float, dict[str, float]]:
    """Time per frontier edge on a graph ten times as large over that on the smaller one.

    `growth` has ten times the edges over the same nodes; `growth_with_nodes` ten times of both,
    where the nodes' words no longer fit the nearer caches: what that costs the floor stands beside.
    """
    small = power_law(NODES, EDGES)
    edges, parts = _grown(power_law(NODES, EDGES // 10), small, repeats)
    nodes, more = _grown(small, power_law(10 * NODES, 10 * EDGES), repeats)
    return edges, {
        "floor_growth": parts["floor"],
        "growth_with_nodes": nodes,
        "floor_growth_with_nodes": more["floor"],
        "growth_frontier_edges": [parts["small"], parts["large"], more["small"], more["large"]],
    }


def _grown(small: Graph, large: Graph, repeats: int) -> tuple[float, dict[str, float]]:
    """Compare two graphs on frontiers of the same number of edges."""
    graphs = (small, large)
    share = _frontier(small, 1.0) / _frontier(large, 1.0)
    for _ in range(4):  # the frontier does not shrink in proportion: correct a few times
        share *= _frontier(small, 1.0) / _frontier(large, share)
    settings = [_settings(1.0), _settings(share)]
    samplers = [
        PLADIES(graph, budgets) for graph, (_, budgets) in zip(graphs, settings, strict=True)
    ]
    words = [np.ones(graph.num_nodes, np.float32) for graph in graphs]
    times: dict[str, list[float]] = {}
    edges: list[list[int]] = [[], []]
    batches = [
        _batches(g, 10 + repeats, size) for g, (size, _) in zip(graphs, settings, strict=True)
    ]
    for step in range(10 + repeats):
        for which in range(2):
            graph, sampler, seeds = graphs[which], samplers[which], batches[which][step]
            targets = [block.dst.numpy() for block in sampler.sample(seeds, step)]
            _timed(times, f"sample{which}", sampler.sample, seeds, step)
            _timed(times, f"floor{which}", _floor, graph, targets, words[which])
            edges[which].append(sum(int(graph.degree[dst].sum()) for dst in targets))
    middle = {name: median(values[10:]) for name, values in times.items()}
    few, many = (median(counts[10:]) for counts in edges)
    sample = (middle["sample1"] / many) / (middle["sample0"] / few)
    pass_ = (middle["floor1"] / many) / (middle["floor0"] / few)
    return sample, {"floor": pass_, "small": few, "large": many}


def _settings(share: float) -> tuple[int, list[int]]:
    return max(round(BATCH * share), 1), [max(round(budget * share), 1) for budget in BUDGETS]


def _frontier(graph: Graph, share: float) -> float:
    size, budgets = _settings(share)
    sampler = PLADIES(graph, budgets)
    counts = []
    for step, seeds in enumerate(_batches(graph, 5, size)):
        blocks = sampler.sample(seeds, step)
        counts.append(sum(int(graph.degree[block.dst.numpy()].sum()) for block in blocks))
    return median(counts)


def _floor(graph: Graph, targets: list[np.ndarray], word: np.ndarray) -> None:
    for dst in targets:
        floor(graph.indptr, graph.indices, dst, word)


def _batches(graph: Graph, count: int, size: int = BATCH) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.choice(graph.num_nodes, size, replace=False) for _ in range(count)]


def _timed(
    times: dict[str, list[float]], name: str, call: Callable[..., Any], *args: Any
) -> list[Block]:
    start = perf_counter()
    result = call(*args)
    times.setdefault(name, []).append(perf_counter() - start)
    return result


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in values.items()}
