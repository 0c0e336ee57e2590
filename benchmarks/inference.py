"""Full-neighbour inference with wide features: projected first, against gathered first.

A power-law graph of the size of Physics, 34,493 nodes with 8,415 random features; networks of three
layers. Layers of `GNN` project every node once and gather projections; the same layers as plain
functions gather rows of the features for every chunk. One thread; both take turns; numbers are
medians of CPU seconds.
"""

from __future__ import annotations

from statistics import median
from time import process_time
from typing import Any

import torch

from benchmarks.graphs import power_law
from bliss.nn import GNN, ModelConfig, infer

NODES, EDGES, WIDTH, CLASSES = 34_493, 247_962, 8_415, 5
NETWORKS = (("sage", 64), ("sage", 256), ("gatv2", 32))
MOST = 3
"""Repetitions of each side."""


def run(repeats: int) -> dict[str, Any]:
    """Time all networks; returns what is written as JSON."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph, x = power_law(NODES, EDGES), torch.randn(NODES, WIDTH)
    result: dict[str, Any] = {"settings": {"nodes": NODES, "features": WIDTH, "threads": 1}}
    for kind, hidden in NETWORKS:
        config = ModelConfig(model=kind, layers=3, hidden=hidden)
        model = GNN(WIDTH, CLASSES, config)
        gathering = [lambda x, block, layer=layer: layer(x, block) for layer in model]
        taken: dict[str, list[float]] = {"projected": [], "gathered": []}
        for _ in range(min(repeats, MOST)):
            for name, layers in (("projected", model), ("gathered", gathering)):
                started = process_time()
                infer(layers, graph, x)
                taken[name].append(process_time() - started)
        seconds = {name: median(one) for name, one in taken.items()}
        found = {**seconds, "gathered_over_projected": seconds["gathered"] / seconds["projected"]}
        result[f"{kind} {hidden}"] = found
        print(kind, hidden, found, flush=True)
    return result
