"""Many draws of one layer, and what theory says of them: shared by the tests of distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.stats
import torch

from bliss import Block, Graph
from bliss.graph import WEIGHTED
from bliss.samplers import Sampler

ROUNDING = 2e-7  # of a float32 weight: all the error there is where every neighbour is certain
TRAINING = 1_000_000  # steps from here on train a policy, so that no measured draw has taught it


@dataclass(frozen=True)
class Draws:
    """N draws of one layer for the same D targets; M kept edges in all."""

    graph: Graph
    dst: np.ndarray  # int64[D]
    times: int  # N
    draw: np.ndarray  # int64[M] the draw that kept the edge
    edge: np.ndarray  # int64[M] graph edge id
    weight: np.ndarray  # float64[M] the block's edge_weight
    kept: np.ndarray  # bool[N, V] whether the draw kept the node

    def aggregate(self, weight: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Sum, in each draw, weight [M] times features x [V, F] at each target. [N, D, F]."""
        position = np.zeros(self.graph.num_nodes, np.int64)
        position[self.dst] = np.arange(self.dst.size)
        slot = self.draw * self.dst.size + position[targets_of(self.graph)[self.edge]]
        assert (slot[1:] >= slot[:-1]).all()  # blocks group their edges by target
        rows = self.times * self.dst.size
        start = np.searchsorted(slot, np.arange(rows + 1))
        entries = (weight, self.graph.indices[self.edge], start)
        matrix = scipy.sparse.csr_array(entries, shape=(rows, self.graph.num_nodes))
        return (matrix @ x).reshape(self.times, self.dst.size, -1)


def repeat(sampler: Sampler, dst: np.ndarray, times: int) -> Draws:
    """Sample the one layer of `sampler` at steps 0 to times - 1."""
    graph = sampler.graph
    room = times * int(np.diff(graph.indptr)[dst].sum())  # small arrays kept alive slow the loop
    edge, weight = np.empty(room, np.int64), np.empty(room)
    kept = np.zeros((times, graph.num_nodes), bool)
    stop = np.zeros(times + 1, np.int64)
    for step in range(times):
        (block,) = sampler.sample(dst, step)
        stop[step + 1] = stop[step] + block.num_edges
        here = slice(stop[step], stop[step + 1])
        edge[here] = block.edge.numpy()
        weight[here] = block.edge_weight.numpy()
        kept[step, block.src.numpy()] = True
    used = slice(stop[-1])
    draw = np.repeat(np.arange(times), np.diff(stop))
    return Draws(graph, np.asarray(dst), times, draw, edge[used], weight[used], kept)


def train(sampler: Sampler, dst: np.ndarray, x: np.ndarray, steps: int) -> None:
    """Show the policy the features x [V, F] of what it draws; then it is left as it is."""
    embedding = torch.from_numpy(x.astype(np.float32))
    for step in range(TRAINING, TRAINING + steps):
        (block,) = sampler.sample(dst, step)
        block.observe(embedding[block.src])
        sampler.update([block])


def targets_of(graph: Graph) -> np.ndarray:
    """The target of each edge, [E]."""
    return np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))


def weight_matrix(block: Block) -> torch.Tensor:
    """The weights of a block's kept edges. float32[D, S]."""
    matrix = torch.zeros(block.num_dst, block.num_src)
    return matrix.index_put_((block.col, block.row), block.edge_weight, accumulate=True)


def coefficients(graph: Graph) -> np.ndarray:
    """alpha_ij of each edge from its definition, float64[E]."""
    if graph.norm in WEIGHTED:
        weight = graph.weight.astype(np.float64)
        total = np.bincount(targets_of(graph), weight, graph.num_nodes)
        return weight if graph.norm == "weights" else weight / total[targets_of(graph)]
    degree = np.diff(graph.indptr).astype(np.float64)
    target = degree[targets_of(graph)]
    return 1 / target if graph.norm == "mean" else 1 / np.sqrt(target * degree[graph.indices])


def square_sums(graph: Graph, dst: np.ndarray) -> np.ndarray:
    """Sum over the targets dst of alpha_ij^2, for each source j. [V]."""
    counts = np.isin(targets_of(graph), dst) * coefficients(graph) ** 2
    return np.bincount(graph.indices, counts, minlength=graph.num_nodes)


def full_aggregate(graph: Graph, dst: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The sum over all in-edges of each target. [D, F]."""
    total = np.zeros((graph.num_nodes, x.shape[1]))
    np.add.at(total, targets_of(graph), coefficients(graph)[:, None] * x[graph.indices])
    return total[dst]


def normal_limit(false_alarm: float, comparisons: int) -> float:
    """The |z| that none of so many exceeds, but with this chance (Bonferroni, two-sided)."""
    return float(scipy.stats.norm.isf(false_alarm / (2 * comparisons)))


def features() -> np.ndarray:
    """Ones, which show an error of scale best; positive sizes; and signed numbers. [60, 3]."""
    generator = np.random.default_rng(7)
    sizes = generator.lognormal(0, 0.6, 60)
    return np.stack([np.ones(60), sizes, generator.normal(size=60)], axis=1)


def worst_z(draws: Draws, weight: np.ndarray) -> float:
    """The largest |z| of a mean aggregate against the full one, over targets and features."""
    x = features()
    samples = draws.aggregate(weight, x)  # [N, D, F]
    exact = full_aggregate(draws.graph, draws.dst, x)
    rounding = ROUNDING * full_aggregate(draws.graph, draws.dst, np.abs(x))
    error = np.hypot(samples.std(0, ddof=1) / np.sqrt(draws.times), rounding)
    return float(np.abs((samples.mean(0) - exact) / error).max())


def heavy_tailed_graph(norm: str = "mean") -> Graph:
    """60 nodes; a few receive from, and a few others send to, most of them. Self-loops added."""
    generator = np.random.default_rng(3)
    chance = np.arange(1, 61) ** -0.8
    sender, receiver = generator.choice(60, size=(2, 800), p=chance / chance.sum())
    pairs = np.unique(np.stack([generator.permutation(60)[sender], receiver]), axis=1)
    weight = generator.lognormal(0, 0.5, pairs.shape[1]) if norm in WEIGHTED else None
    return Graph.from_edge_index(pairs, num_nodes=60, weight=weight, norm=norm)
