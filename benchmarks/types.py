"""How much types cost: sampling with edges in several relations, gathering of several types.

The edges of the 233k graph are divided at random into 1, 4 and 16 relations of one type of nodes.
Batches of 256 seeds, budgets 4096/2048/1024, one thread. Each batch is sampled from the plain graph
and from each other in turn, a different one first each time. Numbers are ratios of medians of
processor time to the plain graph's. Coefficients differ, 1 / |N_i^r| in place of 1 / |N_i|, so that
other sources are drawn: the ratio of the edges that were scanned stands beside.

Gathering: nodes in 4 types of equal size, with 16 relations, and 602 features as in Reddit, whose
size the graph has, or 128, against one table of features; ratio of the times per row of a batch.
"""

from __future__ import annotations

from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

from benchmarks.graphs import power_law
from benchmarks.sampling import EDGES, NODES
from bliss import PLADIES, Bliss, BlockLoader, Graph

BATCH, BUDGETS = 256, [4096, 2048, 1024]
RELATIONS = (1, 4, 16)
TYPES, WIDTHS = 4, (602, 128)
WARM_UP = 20


def run(repeats: int = 41) -> dict[str, Any]:
    """Time sampling and gathering; returns what is written as JSON."""
    torch.set_num_threads(1)
    plain = power_law(NODES, EDGES)
    settings = {"batch": BATCH, "budgets": BUDGETS, "batches": repeats, "threads": 1}
    result: dict[str, Any] = {"settings": settings}
    graphs = {"plain": plain, **{str(number): divided(plain, number) for number in RELATIONS}}
    for name, kind in (("pladies", PLADIES), ("bliss", Bliss)):
        samplers = {key: kind(graph, BUDGETS) for key, graph in graphs.items()}
        result[name] = sampling(samplers, repeats)
        print(name, {key: round(value, 3) for key, value in result[name].items()}, flush=True)
    for width in WIDTHS:
        result[f"gathering_{width}"] = gathering(plain, repeats, width)
        print(f"gathering_{width}", result[f"gathering_{width}"], flush=True)
    return result


def divided(graph: Graph, number: int) -> Graph:
    """The same edges in `number` relations, chosen at random."""
    pairs = graph.edge_index.numpy()
    relation = np.random.default_rng(0).integers(0, number, pairs.shape[1])
    edges = {("node", f"r{r}", "node"): pairs[:, relation == r] for r in range(number)}
    return Graph.from_relations(edges, {"node": graph.num_nodes}, edge_ids=False)


def sampling(samplers: dict[str, Any], repeats: int) -> dict[str, float]:
    """Ratios of one sampler."""
    names = list(samplers)
    times: dict[str, list[float]] = {name: [] for name in names}
    edges: dict[str, list[int]] = {name: [] for name in names}
    generator = np.random.default_rng(1)
    for step in range(WARM_UP + repeats):
        seeds = generator.choice(NODES, BATCH, replace=False)
        first = step % len(names)
        for name in names[first:] + names[:first]:
            sampler = samplers[name]
            sampler.sample(seeds, step)  # untimed: then all find their batch equally warm
            start = process_time()
            blocks = sampler.sample(seeds, step)
            times[name].append(process_time() - start)
            edges[name].append(sum(int(block.degree.sum()) for block in blocks))
    middle = {name: median(values[WARM_UP:]) for name, values in times.items()}
    scanned = {name: median(values[WARM_UP:]) for name, values in edges.items()}
    found = {"plain_ms": middle["plain"] * 1e3}
    for number in RELATIONS:
        found[f"{number}_over_plain"] = middle[str(number)] / middle["plain"]
        found[f"{number}_scanned_over_plain"] = scanned[str(number)] / scanned["plain"]
    return found


def gathering(graph: Graph, repeats: int, width: int) -> dict[str, float]:
    """Time per gathered row with 4 types, over that of one table."""
    pairs, x = graph.edge_index, torch.randn(NODES, width)
    size = -(-NODES // TYPES)
    typed = HeteroData()
    for number in range(TYPES):
        typed[f"t{number}"].x = x[number * size : (number + 1) * size]
    ends = pairs // size
    for source in range(TYPES):
        for target in range(TYPES):
            own = pairs[:, (ends[0] == source) & (ends[1] == target)]
            first = torch.tensor([[source * size], [target * size]])
            typed[f"t{source}", "to", f"t{target}"].edge_index = own - first
    data = Data(x=x, edge_index=pairs)
    loaders = {
        "plain": BlockLoader(data, PLADIES(graph, BUDGETS), batch_size=BATCH, shuffle=True),
        "typed": BlockLoader(
            typed,
            PLADIES(typed, BUDGETS, edge_ids=False),
            ("t0", None),
            batch_size=BATCH,
            shuffle=True,
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in loaders}
    rows: dict[str, list[float]] = {name: [] for name in loaders}
    streams = {name: iter(loader) for name, loader in loaders.items()}
    for _ in range(WARM_UP + repeats):
        for name, stream in streams.items():
            batch = next(stream)
            times[name].append(batch.seconds.gather)
            rows[name].append(batch.seconds.gather / batch.blocks[0].num_src)
    found = {f"{name}_ms": median(values[WARM_UP:]) * 1e3 for name, values in times.items()}
    by_row = {name: median(values[WARM_UP:]) for name, values in rows.items()}
    return {**found, "typed_over_plain": by_row["typed"] / by_row["plain"]}
