"""How much sampling with cut-offs in time costs beside plain sampling.

The 233k graph, whose edges have random times from 0 to 999,999, and the same edges without times.
Batches of 256 seeds, budgets 4096/2048/1024 (node-wise: 10 neighbours), one thread. Each batch is
timed plain (`plain`), with all seeds at the end of time (`end`: every edge is seen, so that only
the cut-offs differ), with random times (`random`: half of the edges are seen on average), and with
random times within a hundredth of all times (`order`: as batches in the order of time), a different
one first each time and each after an untimed pass of its own, so that all are as warm. Numbers are
ratios of medians of processor time to `plain`, with the number of sampled edges relative to `plain`
beside them.
"""

from __future__ import annotations

from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

from benchmarks.graphs import power_law
from benchmarks.sampling import EDGES, NODES
from bliss import PLADIES, Bliss, Graph, Neighbor

BATCH, BUDGETS, FANOUTS = 256, [4096, 2048, 1024], [10, 10, 10]
TIMES = 1_000_000
WARM_UP = 20


def run(repeats: int = 41) -> dict[str, Any]:
    """Time three samplers; returns what is written as JSON."""
    torch.set_num_threads(1)
    plain = power_law(NODES, EDGES)
    timed = with_times(plain)
    settings = {"batch": BATCH, "budgets": BUDGETS, "fanouts": FANOUTS, "batches": repeats}
    result: dict[str, Any] = {"settings": settings}
    for name, make, budgets in (
        ("pladies", PLADIES, BUDGETS),
        ("bliss", Bliss, BUDGETS),
        ("neighbor", Neighbor, FANOUTS),
    ):
        result[name] = measure(make(plain, budgets), make(timed, budgets), repeats)
        print(name, {key: round(value, 3) for key, value in result[name].items()}, flush=True)
    return result


def with_times(graph: Graph) -> Graph:
    """The same edges with random times, by which rows are then sorted; self-loops have none."""
    time = np.random.default_rng(0).integers(0, TIMES, graph.num_edges)
    pairs = graph.edge_index.numpy()
    return Graph.from_edge_index(pairs, graph.num_nodes, self_loops="add", time=time)


def measure(plain: Any, timed: Any, repeats: int) -> dict[str, float]:
    """Ratios of one sampler."""
    random = np.random.default_rng(1)
    names = ["plain", "end", "random", "order"]
    times: dict[str, list[float]] = {name: [] for name in names}
    edges: dict[str, list[int]] = {name: [] for name in names}
    for step in range(WARM_UP + repeats):
        seeds = random.choice(NODES, BATCH, replace=False)
        start = int(random.integers(TIMES // 4, TIMES - TIMES // 100))
        when = {
            "end": np.full(BATCH, TIMES),
            "random": random.integers(0, TIMES, BATCH),
            "order": start + random.integers(0, TIMES // 100, BATCH),
        }
        first = step % len(names)
        for name in names[first:] + names[:first]:
            sampler, time = (plain, None) if name == "plain" else (timed, when[name])
            sampler.sample(seeds, step, time=time)  # untimed
            begin = process_time()
            blocks = sampler.sample(seeds, step, time=time)
            times[name].append(process_time() - begin)
            edges[name].append(sum(block.num_edges for block in blocks))
    middle = {name: median(values[WARM_UP:]) for name, values in times.items()}
    kept = {name: median(values[WARM_UP:]) for name, values in edges.items()}
    ratios = {f"{name}_over_plain": middle[name] / middle["plain"] for name in names[1:]}
    sizes = {f"{name}_edges_over_plain": kept[name] / kept["plain"] for name in names[1:]}
    return ratios | sizes | {"plain_ms": middle["plain"] * 1e3}
