"""Whether PyG's own samplers draw and weigh as ours do, where both have the same method.

PyG's neighbour and GraphSAINT samplers need torch-sparse, which our tests do without; README.md
says how to install it beside the project. Everything is on a small graph of heavy-tailed degrees.

Chances are compared by z, the difference of a share to what it is held against over its standard
error. The largest must stay below the bound of a false alarm of 1e-6 over all of them, by the
normal law; by the binomial one it is about 1e-5, because some chances are small. A sampler of ours
that is wrong on purpose must exceed it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import norm
from torch_geometric.data import Data
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

from bliss import Block, Graph
from bliss.samplers import Neighbor, SaintWalk, Sampler

NODES, FANOUT, ROOTS, LENGTH = 60, 3, 6, 2
SEEDS = np.array([0, 2, 5, 9, 14, 20, 30, 40])
DRAWS = 20_000
COVERAGE = 20_000
FALSE_ALARM = 1e-6

Array = npt.NDArray[Any]
Shares = dict[Any, float]  # of an edge, of a pair of edges, of a node


def run(batches: int) -> dict[str, Any]:
    """Compare, print a line each, and return what was found. `batches` is for the timings."""
    try:
        import torch_sparse
    except ImportError:
        raise SystemExit(
            "torch-sparse is not installed, and PyG's samplers need it: see benchmarks/README.md."
        ) from None
    data = small_graph()
    found = {"draws": DRAWS, "torch_sparse": torch_sparse.__version__}
    return found | {"neighbour": neighbours(data), "saint": saint(data)}


def small_graph() -> Data:
    """Undirected, with self-loops, without parallel edges, sorted by target, then source."""
    random = np.random.default_rng(0)
    popularity = 1 / np.arange(1, NODES + 1)
    pairs = random.choice(NODES, (400, 2), p=popularity / popularity.sum())
    both = np.concatenate([pairs, pairs[:, ::-1], np.arange(NODES)[:, None].repeat(2, 1)])
    source, target = np.unique(both[:, ::-1], axis=0)[:, ::-1].T
    return Data(edge_index=torch.from_numpy(np.stack([source, target])), num_nodes=NODES)


def neighbours(data: Data) -> list[dict[str, Any]]:
    """Edges, and pairs of edges of a target, kept of each neighbourhood."""
    degree = np.bincount(data.edge_index[1].numpy(), minlength=NODES)
    start = np.concatenate([[0], np.cumsum(degree)])
    whole, short = (
        {
            tuple(start[i] + np.array(kept)): chance
            for i in SEEDS
            for kept, chance in floyd_chances(degree[i], FANOUT, is_short).items()
        }
        for is_short in (False, True)
    )
    ours, theirs = our_edges(data, FANOUT, False), their_edges(data, False)
    both = our_edges(data, FANOUT, True), their_edges(data, True)
    return [
        report("with replacement, PyG and ours", two_samples(*both)),
        report("without, ours and equal chances", one_sample(ours, whole)),
        report("without, PyG and equal chances", one_sample(theirs, whole)),
        report("without, PyG and Floyd's draws one short", one_sample(theirs, short)),
        report(
            "mutant: with replacement, one more of ours",
            two_samples(our_edges(data, FANOUT + 1, True), both[1]),
        ),
        report(
            "mutant: without, one more of ours",
            one_sample(our_edges(data, FANOUT + 1, False), whole),
        ),
    ]


def floyd_chances(population: int, count: int, is_short: bool) -> Shares:
    """Chance of each element, and of each pair, to be among `count` of `population`.

    Floyd's algorithm draws a number of 0 to j for j = population - count, ..., population - 1,
    and takes j where the number is taken already: every subset is equally likely. With is_short,
    it draws of 0 to j - 1, as torch-sparse does.
    """
    if count >= population:
        kept = range(population)
        return {key: 1.0 for size in (1, 2) for key in combinations(kept, size)}
    tops = range(population - count, population)
    found: Shares = {}
    outcomes = math.prod(top + (not is_short) for top in tops)
    for drawn in product(*(range(top + (not is_short)) for top in tops)):
        taken: set[int] = set()
        for top, number in zip(tops, drawn, strict=True):
            taken.add(top if number in taken else number)
        for size in (1, 2):
            for key in combinations(sorted(taken), size):
                found[key] = found.get(key, 0.0) + 1 / outcomes
    return found


def our_edges(data: Data, fanout: int, replace: bool) -> Shares:
    """What our neighbour sampler keeps."""
    sampler = Neighbor(Graph.of(data, self_loops="add"), [fanout], replace=replace)

    def draw(step: int) -> tuple[Array, Array]:
        (block,) = sampler.sample(SEEDS, step)
        return block.edge.numpy(), block.dst[block.col].numpy()

    return edge_shares(draw)


def their_edges(data: Data, replace: bool) -> Shares:
    """What PyG's keeps."""
    torch.manual_seed(0)
    sampler = NeighborSampler(data, num_neighbors=[FANOUT], replace=replace)
    given = NodeSamplerInput(input_id=None, node=torch.from_numpy(SEEDS))

    def draw(step: int) -> tuple[Array, Array]:
        out = sampler.sample_from_nodes(given)
        return out.edge.numpy(), out.node[out.col].numpy()

    return edge_shares(draw)


def edge_shares(draw: Callable[[int], tuple[Array, Array]]) -> Shares:
    """How often an edge, and a pair of edges of one target, is in a sample: (e,) and (e, f)."""

    def keys() -> Iterable[list[Any]]:
        for step in range(DRAWS):
            edge, target = draw(step)
            kept = sorted(set(zip(edge.tolist(), target.tolist(), strict=True)))
            pairs = [(a[0], b[0]) for a, b in combinations(kept, 2) if a[1] == b[1]]
            yield [*((e,) for e, _ in kept), *pairs]

    return shares(keys())


def saint(data: Data) -> list[dict[str, Any]]:
    """Nodes and edges of random-walk subgraphs, and the coefficients that are derived of them."""
    from torch_geometric.loader import GraphSAINTRandomWalkSampler

    source, target = data.edge_index.numpy()
    torch.manual_seed(0)
    options = {"batch_size": ROOTS, "walk_length": LENGTH, "num_steps": 500}
    theirs = GraphSAINTRandomWalkSampler(data, sample_coverage=COVERAGE, log=False, **options)

    def drawn() -> Iterable[list[Any]]:
        for number in range(DRAWS):
            node, adjacency = theirs[number]
            yield [*node.tolist(), *(("edge", e) for e in adjacency.storage.value().tolist())]

    expected = shares(drawn())
    right, longer = (
        SaintWalk(Graph.of(data, self_loops="add"), layers=1, length=length, coverage=COVERAGE)
        for length in (LENGTH, LENGTH + 1)
    )
    node, edge = coefficients(right, len(source))
    by_source = edge * node[target] / node[source]
    return [
        report("walks, PyG and ours", two_samples(walk_shares(right), expected)),
        report("mutant: one hop more of ours", two_samples(walk_shares(longer), expected)),
        compare("1 / lambda_v", node, theirs.node_norm.numpy()),
        compare("1 / alpha_uv, C_target / C_uv as published", edge, theirs.edge_norm.numpy()),
        compare("1 / alpha_uv, C_source / C_uv", by_source, theirs.edge_norm.numpy()),
    ]


def walk_shares(sampler: SaintWalk) -> Shares:
    """How often a node and an edge is in our subgraph."""
    return shares(
        [*block.src.tolist(), *(("edge", e) for e in block.edge.tolist())]
        for block in subgraphs(sampler, DRAWS)
    )


def coefficients(sampler: SaintWalk, edges: int) -> tuple[Array, Array]:
    """1 / (m p_v) of each node and p_v / p_uv of each edge, as blocks have them."""
    node, edge = np.full(NODES, np.nan), np.full(edges, np.nan)
    for block in subgraphs(sampler, 3000):
        assert block.dst_weight is not None
        node[block.dst.numpy()] = block.dst_weight.numpy()
        alpha = block.coefficient.numpy()  # 1 / |N_i|
        edge[block.edge.numpy()] = block.edge_weight.numpy() / alpha
    return node, edge


def subgraphs(sampler: Sampler, count: int) -> Iterable[Block]:
    """So many of them, of all nodes."""
    sampler.prepare(np.arange(NODES), ROOTS)
    for step in range(count):
        yield sampler.sample(np.arange(NODES), step)[0]


def shares(draws: Iterable[list[Any]]) -> Shares:
    """How often each thing was kept, over the number of draws."""
    found: Counter[Any] = Counter()
    for kept in draws:
        found.update(kept)
    return {key: number / DRAWS for key, number in found.items()}


def two_samples(ours: Shares, theirs: Shares) -> dict[str, float]:
    """The largest |z| of two sets of shares."""
    return largest_z(ours, theirs, lambda a, b: 2 * (a + b) / 2 * (1 - (a + b) / 2))


def one_sample(found: Shares, chance: Shares) -> dict[str, float]:
    """The largest |z| of shares against chances; infinite where what cannot be was found."""
    return largest_z(found, chance, lambda a, p: p * (1 - p))


def largest_z(
    found: Shares, expected: Shares, variance: Callable[[float, float], float]
) -> dict[str, float]:
    """The largest |z|, what it may be, and the largest difference."""
    keys = found.keys() | expected.keys()
    pairs = [(found.get(key, 0.0), expected.get(key, 0.0)) for key in keys]
    worst = 0.0
    for a, b in pairs:
        if abs(a - b) > 1e-9:
            error = math.sqrt(max(variance(a, b), 0.0) / DRAWS)
            worst = max(worst, abs(a - b) / error if error > 1e-9 else math.inf)
    bound = float(norm.isf(FALSE_ALARM / 2 / len(keys)))
    return {"z": worst, "bound": bound, "apart": max(abs(a - b) for a, b in pairs)}


def report(label: str, found: dict[str, float]) -> dict[str, Any]:
    """One line for chances."""
    agree = found["z"] < found["bound"]
    print(
        f"{label:45} largest |z| {found['z']:6.1f} (bound {found['bound']:.1f}), "
        f"at most {found['apart']:.3f} apart: {'agree' if agree else 'differ'}",
        flush=True,
    )
    return {"what": label, "agree": agree} | found


def compare(label: str, ours: Array, theirs: Array) -> dict[str, Any]:
    """One line for coefficients, both counted: how far they are apart, as a share."""
    apart = np.abs(ours / theirs - 1)
    middle, most = float(np.median(apart)), float(apart.max())
    print(f"{label:45} apart by {middle:.3f} (median), {most:.3f} (most)", flush=True)
    return {"what": label, "median": middle, "most": most}
