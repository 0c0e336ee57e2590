"""How long each sampler of SAMPLERS takes to draw a batch and to learn from it.

Graph (b), 232,965 nodes and 11.6 M edges; batches of 256 seeds, 3 layers, one thread. Samplers
that count sources keep 4096/2048/1024 of them, those that count neighbours 10 per target; AS-GCN
looks at 128 random features. Every batch is drawn by each sampler in turn, a different one first
each time; numbers are medians over the batches, and their ratios are within one run.
"""

from __future__ import annotations

import gc
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.graphs import power_law
from benchmarks.sampling import BATCH, BUDGETS, EDGES, NODES
from bliss import Graph
from bliss.samplers import SAMPLERS, Sampler, sampler_class

LAYERS, FANOUT, FEATURES = 3, 10, 128
WARM_UP = 4


def run(repeats: int) -> dict[str, Any]:
    """Time all samplers; returns what is written as JSON."""
    torch.set_num_threads(1)
    graph = power_law(NODES, EDGES)
    rows = measure(graph, repeats)
    for name, row in rows.items():
        print(name, {key: round(value, 3) for key, value in row.items()}, flush=True)
    settings = {"batch": BATCH, "budgets": BUDGETS, "fanout": FANOUT, "features": FEATURES}
    return {"settings": settings | {"batches": repeats, "threads": 1}, "samplers": rows}


def measure(graph: Graph, repeats: int) -> dict[str, dict[str, float]]:
    """A row per sampler."""
    samplers = {name: make(name, graph) for name in SAMPLERS}
    sizes = torch.from_numpy(np.random.default_rng(1).lognormal(0, 0.5, (graph.num_nodes, 1)))
    seen: dict[str, list[tuple[float, ...]]] = {name: [] for name in samplers}
    random = np.random.default_rng(0)
    names = list(samplers)
    for step in range(WARM_UP + repeats):
        seeds = random.choice(graph.num_nodes, BATCH, replace=False)
        first = step % len(names)
        for name in names[first:] + names[:first]:
            seen[name].append(timed(samplers[name], seeds, step, sizes))
        gc.collect()
    rows = {name: summary(found[WARM_UP:]) for name, found in seen.items()}
    for row in rows.values():
        row["ns_per_edge_over_pladies"] = row["ns_per_edge"] / rows["pladies"]["ns_per_edge"]
    return rows


def make(name: str, graph: Graph) -> Sampler:
    """A sampler with the budgets of its unit."""
    kind = sampler_class(name)
    counts = {"sources": BUDGETS, "neighbours": [FANOUT] * LAYERS}
    options: dict[str, Any] = {}
    if kind.needs_features:
        random = np.random.default_rng(2)
        options["x"] = random.standard_normal((graph.num_nodes, FEATURES), np.float32)
    return SAMPLERS[name](graph, counts.get(kind.unit, ()), layers=LAYERS, **options)


def timed(sampler: Sampler, seeds: np.ndarray, step: int, sizes: torch.Tensor) -> tuple[float, ...]:
    """Seconds to draw, seconds to learn, nodes and edges of all layers."""
    started = perf_counter()
    blocks = sampler.sample(seeds, step)
    drawn = perf_counter()
    for block in blocks:
        block.observe(sizes[block.src])
    observed = perf_counter()
    sampler.update(blocks)
    learnt = perf_counter() - observed
    nodes = sum(block.num_src for block in blocks)
    return drawn - started, learnt, nodes, sum(block.num_edges for block in blocks)


def summary(found: list[tuple[float, ...]]) -> dict[str, float]:
    """Medians of a sampler's batches."""
    draw, learn, nodes, edges = (median(column) for column in zip(*found, strict=True))
    return {
        "ms": draw * 1e3,
        "nodes": nodes,
        "edges": edges,
        "ns_per_edge": draw / max(edges, 1) * 1e9,
        "update_ms": learn * 1e3,
    }
