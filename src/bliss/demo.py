"""`python -m bliss.demo`: a bandit learns where to look, and the variance falls towards its limit.

A power-law graph whose nodes send messages of heavy-tailed sizes is sampled for a few hundred
steps. The error of a layer's aggregates is computed in closed form, on the same frontier, for
PLADIES, for BLISS as it learns, and for the best probabilities there are.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from bliss.graph import Graph
from bliss.samplers import PLADIES, Bliss, LayerSampler

NODES, EDGES, BATCH, BUDGET, STEPS = 20_000, 400_000, 256, 1024, 400


def main() -> None:
    """Run the demonstration and print what it shows."""
    random = np.random.default_rng(0)
    chance = 1 / (np.arange(NODES) + 10.0)
    ends = random.choice(NODES, size=(2, EDGES), p=chance / chance.sum())
    graph = Graph.from_edge_index(random.permutation(NODES)[ends], NODES)
    size = random.lognormal(0, 1, NODES)  # |h_j|
    fixed, learning = PLADIES(graph, [BUDGET]), Bliss(graph, [BUDGET])
    print(f"{graph}: batches of {BATCH}, about {BUDGET} sources kept of a layer's candidates\n")
    print("  step   PLADIES   BLISS   limit   (error of the aggregates, PLADIES = 1)")
    started = time.perf_counter()
    for step in range(STEPS + 1):
        seeds = random.choice(NODES, BATCH, replace=False)
        if step in (0, 10, 50, 100, 200, 400):
            static, bandit, limit = errors(graph, [fixed, learning], seeds, size)
            print(f"  {step:4d}   {1:7.2f}   {bandit / static:5.2f}   {limit / static:5.2f}")
        blocks = learning.sample(seeds, step)
        blocks[0].observe(torch.from_numpy(size[blocks[0].src.numpy()])[:, None])
        learning.update(blocks)
    each = (time.perf_counter() - started) / STEPS * 1e3
    print(f"\n{STEPS} steps of sampling and learning, {each:.2f} ms each.")


def errors(
    graph: Graph, samplers: list[LayerSampler], seeds: np.ndarray, size: np.ndarray
) -> list[float]:
    """V = sum_j (1 / p_j - 1) |h_j|^2 sum_i alpha_ij^2 for each sampler, then for the best p."""
    candidate = samplers[0].inclusion(seeds, 0).candidate
    squares = np.zeros(graph.num_nodes)
    for i in seeds:
        row = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        np.add.at(squares, row, 1 / graph.degree[i] ** 2)
    cost = size[candidate] ** 2 * squares[candidate]
    chances = [sampler.inclusion(seeds, 0).prob for sampler in samplers]
    best = np.sqrt(cost).astype(np.float32)
    chances.append(samplers[0].draw.probability(best, seeds.size, samplers[0].budgets[0]))
    return [float((cost * (1 / prob - 1)).sum()) for prob in chances]


if __name__ == "__main__":
    main()
