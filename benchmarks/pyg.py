"""Whether PyG's own samplers draw and weigh as ours do, where both have the same method.

`python -m benchmarks.pyg`, in an environment that has torch-sparse (`pip install torch-scatter
torch-sparse --no-build-isolation`, with a compiler): PyG's neighbour and GraphSAINT samplers need
it, and the test suite does without. Everything is on a small graph with heavy-tailed degrees.

Chances are compared by z, the difference of two shares over its standard error; the largest of
all must stay below the bound of a false alarm of 1e-6. A wrong sampler of ours must exceed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import norm
from torch_geometric.data import Data
from torch_geometric.loader import GraphSAINTRandomWalkSampler
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

from bliss import Graph
from bliss.samplers import Neighbor, SaintWalk, Sampler

NODES, FANOUT, ROOTS, LENGTH = 60, 3, 6, 2
SEEDS = np.array([0, 2, 5, 9, 14, 20, 30, 40])
FALSE_ALARM = 1e-6

Draw = Iterable[Any]  # what one draw kept: edges, pairs of edges, nodes


def small_graph() -> Data:
    """Undirected, with self-loops, without parallel edges, sorted as PyG sorts edges."""
    random = np.random.default_rng(0)
    popularity = 1 / np.arange(1, NODES + 1)
    pairs = random.choice(NODES, (400, 2), p=popularity / popularity.sum())
    both = np.concatenate([pairs, pairs[:, ::-1], np.arange(NODES)[:, None].repeat(2, 1)])
    source, target = np.unique(both[:, ::-1], axis=0)[:, ::-1].T  # by target, then source
    return Data(edge_index=torch.from_numpy(np.stack([source, target])), num_nodes=NODES)


def shares(draws: Iterable[Draw], count: int) -> dict[Any, float]:
    """How often each thing was kept, over the number of draws."""
    found: Counter[Any] = Counter()
    for kept in draws:
        found.update(kept)
    return {key: number / count for key, number in found.items()}


def largest_z(ours: dict[Any, float], theirs: dict[Any, float], count: int) -> tuple[float, float]:
    """The largest |z| of two sets of shares, each of so many draws, and what it may be."""
    keys = ours.keys() | theirs.keys()
    worst = 0.0
    for key in keys:
        a, b = ours.get(key, 0.0), theirs.get(key, 0.0)
        middle = (a + b) / 2
        if 0 < middle < 1:
            worst = max(worst, abs(a - b) / np.sqrt(2 * middle * (1 - middle) / count))
    return worst, float(norm.isf(FALSE_ALARM / 2 / len(keys)))


def with_pairs(edge: npt.NDArray[Any], target: npt.NDArray[Any]) -> list[Any]:
    """Kept edges, and pairs of them at one target."""
    kept = sorted(zip(target.tolist(), edge.tolist(), strict=True))
    pairs = [(a[1], b[1]) for a, b in combinations(kept, 2) if a[0] == b[0]]
    return [*(e for _, e in kept), *pairs]


def neighbours(count: int = 20_000) -> None:
    """Edges, and pairs of edges of a target, kept by uniform sampling without replacement."""
    data = small_graph()
    graph = Graph.of(data)
    torch.manual_seed(0)
    sampler = NeighborSampler(data, num_neighbors=[FANOUT])
    given = NodeSamplerInput(input_id=None, node=torch.from_numpy(SEEDS))

    def theirs() -> Iterable[Draw]:
        for _ in range(count):
            out = sampler.sample_from_nodes(given)
            yield with_pairs(out.edge.numpy(), out.node[out.col].numpy())

    def ours(fanout: int) -> Iterable[Draw]:
        one: Sampler = Neighbor(graph, [fanout])
        for step in range(count):
            (block,) = one.sample(SEEDS, step)
            yield with_pairs(block.edge.numpy(), block.dst[block.col].numpy())

    expected = shares(theirs(), count)
    report("neighbour sampling", *largest_z(shares(ours(FANOUT), count), expected, count))
    report("  one more of ours", *largest_z(shares(ours(FANOUT + 1), count), expected, count))


def saint(count: int = 20_000) -> None:
    """Nodes and edges of random-walk subgraphs, and the coefficients that PyG derives of them."""
    data = small_graph()
    source, target = data.edge_index.numpy()
    torch.manual_seed(0)
    options = {"batch_size": ROOTS, "walk_length": LENGTH, "num_steps": 500}
    theirs = GraphSAINTRandomWalkSampler(data, sample_coverage=20_000, log=False, **options)

    def drawn() -> Iterable[Draw]:
        for number in range(count):
            node, adjacency = theirs[number]
            edges = adjacency.storage.value().tolist()
            yield [*node.tolist(), *(("edge", edge) for edge in edges)]

    expected = shares(drawn(), count)
    for length, label in ((LENGTH, "GraphSAINT walks"), (LENGTH + 1, "  one hop more of ours")):
        ours = SaintWalk(Graph.of(data), layers=1, length=length, coverage=20_000)
        ours.prepare(np.arange(NODES), ROOTS)
        found = shares(
            (
                [*b.src.tolist(), *(("edge", e) for e in b.edge.tolist())]
                for b in blocks(ours, count)
            ),
            count,
        )
        report(label, *largest_z(found, expected, count))
        if length == LENGTH:
            node, edge = coefficients(ours, len(source))
            both = float(np.abs(theirs.node_norm.numpy() / node - 1).max())
            print(f"  1 / lambda_v: at most {both:.3f} apart")
            for name, end in (("target", target), ("source", source)):
                # PyG: C_source / C_edge; the paper, and ours: C_target / C_edge
                scaled = edge * node[target] / node[end]
                apart = float(np.abs(theirs.edge_norm.numpy() / scaled - 1).max())
                print(f"  1 / alpha_uv by the count of the {name}: at most {apart:.3f} apart")


def blocks(sampler: Sampler, count: int) -> Iterable[Any]:
    """Subgraphs, one by one."""
    for step in range(count):
        yield sampler.sample(np.arange(NODES), step)[0]


def coefficients(
    sampler: SaintWalk, edges: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """1 / (m p_v) of each node and p_v / p_uv of each edge, gathered from blocks."""
    node, edge = np.full(NODES, np.nan), np.full(edges, np.nan)
    alpha = sampler.graph.target_scale  # 1 / |N_i|
    for block in blocks(sampler, 3000):
        assert block.dst_weight is not None
        node[block.dst.numpy()] = block.dst_weight.numpy()
        owner = block.dst[block.col].numpy()
        edge[block.edge.numpy()] = block.edge_weight.numpy() / alpha[owner]
    return node, edge


def report(label: str, worst: float, bound: float) -> None:
    """One line."""
    verdict = "agree" if worst < bound else "differ"
    print(f"{label}: largest |z| {worst:.1f}, bound {bound:.1f}: {verdict}", flush=True)


if __name__ == "__main__":
    neighbours()
    saint()
