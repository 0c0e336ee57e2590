"""How much a batch of links costs beside a batch of nodes, and the memory of ranking.

512 links of the 233k graph with 512 binary negatives, budgets 4096/2048/1024, one thread. Three
batches are timed in turn, a different one first each time: the links with their edges hidden
(`links`), the same links with all edges visible (`seen`), and their distinct ends given as seed
nodes (`nodes`). `uniform` is a batch of as many nodes drawn uniformly, which have lower degrees
than ends of edges. Numbers are ratios of medians, of processor time: other processes delay it less.
The share of the exclusion is the median over batches of (`links` - `seen`) / `links`.

Ranking: 10,000 links against all nodes by dot products of 64 numbers, with all edges of the graph
as known links, in a process of its own whose peak memory is reported.
"""

from __future__ import annotations

import tempfile
from multiprocessing import get_context
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

from benchmarks.graphs import power_law
from benchmarks.sampling import EDGES, NODES
from bliss import PLADIES, Bliss, Graph
from bliss.links import rank_links
from bliss.loader import EdgeSeeds
from bliss.train.peak_memory import peak_mb

BATCH, BUDGETS = 512, [4096, 2048, 1024]
WARM_UP = 20
LINKS, WIDTH = 10_000, 64


def run(repeats: int = 41) -> dict[str, Any]:
    """Time sampling and ranking; returns what is written as JSON."""
    torch.set_num_threads(1)
    graph = power_law(NODES, EDGES)
    result: dict[str, Any] = {"settings": {"batch": BATCH, "budgets": BUDGETS, "batches": repeats}}
    for name, sampler in (("pladies", PLADIES(graph, BUDGETS)), ("bliss", Bliss(graph, BUDGETS))):
        result[name] = measure(graph, sampler, repeats)
        print(name, {key: round(value, 3) for key, value in result[name].items()}, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/known.npy", graph.edge_index.numpy())
        np.save(f"{folder}/links.npy", np.unique(random_links(graph, LINKS, 0), axis=1))
        with get_context("spawn").Pool(1) as pool:
            result["ranking"] = pool.apply(ranking, (folder, NODES))
    print("ranking", {key: round(value, 3) for key, value in result["ranking"].items()}, flush=True)
    return result


def random_links(graph: Graph, count: int, seed: int) -> np.ndarray:
    """Edges of the graph other than self-loops. int64[2, N]."""
    edge = np.random.default_rng(seed).permutation(graph.num_edges)[: 2 * count]
    target = np.searchsorted(graph.indptr, edge, side="right") - 1
    pairs = np.stack([graph.indices[edge].astype(np.int64), target])
    return pairs[:, pairs[0] != pairs[1]][:, :count]


def measure(graph: Graph, sampler: Any, repeats: int) -> dict[str, float]:
    """The ratios of one sampler."""
    steps = WARM_UP + repeats
    pairs = random_links(graph, BATCH * steps, 0)
    seeds = {
        name: EdgeSeeds.of(graph, pairs, neg_sampling="binary", exclude=exclude)
        for name, exclude in (("links", "reverse"), ("seen", "none"))
    }
    generator = np.random.default_rng(1)
    names = ["links", "seen", "nodes"]
    times: dict[str, list[float]] = {name: [] for name in (*names, "choose", "uniform")}
    for step in range(steps):
        index = np.arange(step * BATCH, (step + 1) * BATCH)
        ends = seeds["links"].batch(index, 0).node
        uniform = generator.choice(graph.num_nodes, ends.size, replace=False)
        start = process_time()
        sampler.sample(uniform, step)
        times["uniform"].append(process_time() - start)
        sampler.sample(ends, step)  # untimed: then all three find the batch in the caches
        first = step % len(names)
        for name in names[first:] + names[:first]:
            start = process_time()
            if name in seeds:
                batch = seeds[name].batch(index, 0)
                if name == "links":
                    times["choose"].append(process_time() - start)
                sampler.sample(batch.node, step, without=batch.without)
            else:
                sampler.sample(ends, step)
            times[name].append(process_time() - start)
    middle = {name: median(values[WARM_UP:]) for name, values in times.items()}
    pairs_of_times = list(zip(times["links"], times["seen"], strict=True))[WARM_UP:]
    return {
        "links_over_nodes": middle["links"] / middle["nodes"],
        "links_over_uniform_nodes": middle["links"] / middle["uniform"],
        "exclusion_share": median((links - seen) / links for links, seen in pairs_of_times),
        "choosing_share": middle["choose"] / middle["links"],
        "links_ms": middle["links"] * 1e3,
        "seed_nodes": float(ends.size),
    }


def ranking(folder: str, nodes: int) -> dict[str, float]:
    """Seconds and peak memory of ranking links among all nodes."""
    torch.set_num_threads(1)
    known, links = (np.load(f"{folder}/{name}.npy") for name in ("known", "links"))
    z = torch.randn(nodes, WIDTH, generator=torch.Generator().manual_seed(0))
    before = peak_mb(torch.device("cpu"))
    start = process_time()
    ranks = rank_links(lambda s, c: z[s] @ z[c].T, links, nodes, known=known)
    seconds = process_time() - start
    return {
        "seconds": seconds,
        "peak_mib": peak_mb(torch.device("cpu")),
        "peak_before_mib": before,
        "links_ranked": float(ranks.greater.size),
    }
