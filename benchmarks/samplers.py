"""Time that each sampler of SAMPLERS takes to draw a batch and to learn from it.

Graph (b), 232,965 nodes and 11.6 M edges; batches of 256 seeds, 3 layers, one thread. Samplers
that count sources keep 4096/2048/1024 of them, those that count neighbours 10 per target; samplers
of subgraphs draw about 4096 nodes, or 4096 edges, or walks from 1024 roots. AS-GCN and VR-GCN use
128 random features. Every batch is drawn by each sampler in turn, in a random order; numbers are
medians over the batches, and ratios are within one run. Work before the first batch is timed
separately.
"""

from __future__ import annotations

import gc
from itertools import cycle
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.graphs import power_law
from benchmarks.sampling import BATCH, BUDGETS, EDGES, NODES
from bliss import Graph
from bliss.samplers import SAMPLERS, Sampler

LAYERS, FANOUT, FEATURES, SUBGRAPH = 3, 10, 128, 4096
SUBGRAPHS = {"saint-rw": SUBGRAPH // 4}
"""Batch sizes of samplers that make their own batches, where not SUBGRAPH."""
WARM_UP = 4


def run(repeats: int) -> dict[str, Any]:
    """Time all samplers; returns what is written as JSON."""
    torch.set_num_threads(1)
    graph = power_law(NODES, EDGES)
    rows = measure(graph, repeats)
    for name, row in rows.items():
        print(name, {key: round(value, 3) for key, value in row.items()}, flush=True)
    settings = {
        "batch": BATCH,
        "budgets": BUDGETS,
        "fanout": FANOUT,
        "features": FEATURES,
        "subgraph": SUBGRAPH,
    }
    return {"settings": settings | {"batches": repeats, "threads": 1}, "samplers": rows}


def measure(graph: Graph, repeats: int) -> dict[str, dict[str, float]]:
    """A row per sampler."""
    x = torch.from_numpy(
        np.random.default_rng(1).lognormal(0, 0.5, (graph.num_nodes, FEATURES)).astype(np.float32)
    )
    made = {name: Timed(name, graph, x) for name in SAMPLERS}
    random = np.random.default_rng(0)
    for step in range(WARM_UP + repeats):
        seeds = random.choice(graph.num_nodes, BATCH, replace=False)
        for name in random.permutation(list(made)):  # caches depend on the order
            made[name].draw(seeds, step)
        gc.collect()
    rows = {name: one.summary() for name, one in made.items()}
    for row in rows.values():
        row["ns_per_edge_over_pladies"] = row["ns_per_edge"] / rows["pladies"]["ns_per_edge"]
    return rows


class Timed:
    """A sampler with the budgets of its unit, and how long it takes."""

    def __init__(self, name: str, graph: Graph, x: torch.Tensor) -> None:
        config = SAMPLERS[name]
        counts = {"sources": BUDGETS, "neighbours": [FANOUT] * LAYERS}
        self.x = x
        self.sampler: Sampler = config.build(
            graph,
            counts.get(config.unit, ())[LAYERS - config.sampled_layers(LAYERS) :],
            layers=LAYERS,
            x=x.numpy() if config.needs_features else None,
            widths=[x.size(1)] * LAYERS,
        )
        self.found: list[tuple[float, ...]] = []
        self.preparing = 0.0
        if config.makes_batches:
            started = perf_counter()
            self.sampler.prepare(np.arange(graph.num_nodes), SUBGRAPHS.get(name, SUBGRAPH))
            self.batches = cycle(self.sampler.batches(0))
            self.sampler.sample(next(self.batches), 0)  # counts walks, for instance
            self.preparing = perf_counter() - started

    def draw(self, seeds: np.ndarray, step: int) -> None:
        """Draw a batch and learn from it."""
        if self.sampler.makes_batches:
            seeds = next(self.batches)
        started = perf_counter()
        blocks = self.sampler.sample(seeds, step)
        drawn = perf_counter()
        for block in blocks:
            if self.sampler.learns:
                block.observe(self.x[block.src])
        observed = perf_counter()
        self.sampler.update(blocks)
        learnt = perf_counter() - observed
        nodes = sum(block.num_src for block in blocks)
        edges = sum(block.num_edges for block in blocks)
        self.found.append((drawn - started, learnt, nodes, edges))

    def summary(self) -> dict[str, float]:
        """Medians of the batches after the warm-up."""
        columns = zip(*self.found[WARM_UP:], strict=True)
        draw, learn, nodes, edges = (median(column) for column in columns)
        return {
            "ms": draw * 1e3,
            "nodes": nodes,
            "edges": edges,
            "ns_per_edge": draw / max(edges, 1) * 1e9,
            "update_ms": learn * 1e3,
            "prepare_s": self.preparing,
        }
