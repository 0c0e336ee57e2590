"""What docs/samplers.md and docs/subgraphs.md say of sources, bias and error, measured.

`python -m experiments.samplers.estimates --root DATA` measures all of it, from fixed seeds, and
writes estimates.json and estimates.md, where the docstring of each measure stands above its table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from inspect import cleandoc
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch

from bliss import Graph
from bliss.data import data_root, load_dataset
from bliss.nn.aggregate import aggregate
from bliss.samplers import SAMPLERS, ClusterGCN, Full, SaintWalk, Sampler
from bliss.samplers.partition import edge_cut
from bliss.studies.records import mean_and_deviation
from bliss.studies.runs import machine
from bliss.train import Trainer, resolve

HERE = Path(__file__).parent
COMMAND = "python -m experiments.samplers.estimates --root DATA"
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])  # of the small graph: 41 to 3 in-edges
HAJEK = {  # name of the sampler, budget, coefficients
    "`labor`, fanout 5": ("labor", 5, "mean"),
    "`labor-1`, fanout 5": ("labor-1", 5, "mean"),
    "`neighbor`, fanout 5, given weights": ("neighbor", 5, "weights"),
    "`fastgcn`, 40 draws": ("fastgcn", 40, "mean"),
    "`fastgcn`, 20 draws": ("fastgcn", 20, "mean"),
}
PARTITIONS = {"metis": "METIS", "propagation": "propagation", "random": "random parts"}
EPOCHS = 200  # of clusters
COVERAGE = 50  # visits of a node, in what is counted
LATER = 1 << 40  # steps that training never gets to

Array = npt.NDArray[Any]
Found = dict[str, Any]
Rows = list[list[str]]  # of a table, the header first


def main() -> None:
    """Measure everything, then write it as numbers and as tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    root = data_root(parser.parse_args().root)
    torch.set_num_threads(1)
    found: Found = {"command": COMMAND, "machine": msgspec.to_builtins(machine()), "seconds": {}}
    for name, (measure, _) in MEASURES.items():
        started = perf_counter()
        found[name] = measure(root)
        found["seconds"][name] = perf_counter() - started
        print(name, f"{found['seconds'][name]:.0f} s", flush=True)
    (HERE / "estimates.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (HERE / "estimates.md").write_text(page(found), encoding="utf-8")


def page(found: Found) -> str:
    """All tables, and what they were measured by."""
    facts, seconds = found["machine"], found["seconds"]
    lines = [
        f"# What samplers estimate, and how well\n\n    {found['command']}\n",
        f"{sum(seconds.values()):.0f} s on one thread of {facts['processor']}, shared with other "
        f"work; torch {facts['torch']}, Python {facts['python']}.",
    ]
    for name, (measure, table) in MEASURES.items():
        header, *rows = table(found[name])
        lines.append(f"\n## {name}\n\n{cleandoc(measure.__doc__ or '')} {seconds[name]:.0f} s.\n")
        lines += [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
        lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def measure_labor(root: Path) -> Found:
    """LABOR against neighbour sampling: sources of the input layer, and kept edges of all layers.

    Flickr's topology, 1,000 seeds, 3 layers, mean of 5 draws. Of `neighbor` the number of sources;
    of the others sources over those of `neighbor`, and in brackets kept edges likewise.
    """
    graph = Graph.from_scipy(scipy.sparse.load_npz(root / "Flickr" / "raw" / "adj_full.npz"))
    seeds = np.random.default_rng(0).permutation(graph.num_nodes)[:1000]
    found: Found = {}
    for fanout in (5, 10, 20):
        names = ("neighbor", "labor", "labor-1", "labor-*")
        samplers = {name: SAMPLERS[name](graph, [fanout] * 3) for name in names}
        if fanout == 10:
            samplers["shared"] = SAMPLERS["labor"](graph, [fanout] * 3, shared=True)
        found[str(fanout)] = {name: sizes(sampler, seeds) for name, sampler in samplers.items()}
    return found


def sizes(sampler: Sampler, seeds: Array) -> dict[str, float]:
    """Mean number of input sources, and of kept edges of all layers, over 5 draws."""
    drawn = [sampler.sample(seeds, step) for step in range(5)]
    edges = sum(block.num_edges for blocks in drawn for block in blocks)
    return {"sources": sum(blocks[0].num_src for blocks in drawn) / 5, "edges": edges / 5}


def labor_table(found: Found) -> Rows:
    """A line for each fanout."""
    rows = [["fanout", "`neighbor`", "`labor`", "`labor-1`", "`labor-*`", "`labor`, shared"]]
    for fanout, here in found.items():
        all_ = here["neighbor"]
        cells = [
            f"{one['sources'] / all_['sources']:.2f} ({one['edges'] / all_['edges']:.2f})"
            for name, one in here.items()
            if name != "neighbor"
        ]
        rows.append([fanout, f"{all_['sources']:,.0f}", *cells, *[""] * (4 - len(cells))])
    return rows


def measure_hajek(root: Path) -> Found:
    """Bias and root mean square error of one layer's aggregate, with both estimators.

    60 nodes with heavy-tailed degrees (the graph of the tests), 8,000 draws. Absolute bias and
    error are over the aggregate of absolute features, and the mean over 3 features (ones, positive
    sizes, signed numbers) and 8 targets, one of which has 3 in-edges: node-wise samplers keep them
    all. Noise is the standard error of the mean, likewise: what has no bias shows 0.8 of it.
    """
    found: Found = {}
    for case, (name, budget, norm) in HAJEK.items():
        graph = heavy_tailed_graph(norm)
        found[case] = {
            estimator: bias_and_error(SAMPLERS[name](graph, [budget], estimator=estimator))
            for estimator in ("ht", "hajek")
        }
    return found


def heavy_tailed_graph(norm: Any) -> Graph:
    """60 nodes; a few receive from, and a few others send to, most of them. As in the tests."""
    random = np.random.default_rng(3)
    chance = np.arange(1, 61) ** -0.8
    sender, receiver = random.choice(60, size=(2, 800), p=chance / chance.sum())
    pairs = np.unique(np.stack([random.permutation(60)[sender], receiver]), axis=1)
    weight = random.lognormal(0, 0.5, pairs.shape[1]) if norm == "weights" else None
    return Graph.from_edge_index(pairs, num_nodes=60, weight=weight, norm=norm)


def bias_and_error(sampler: Sampler) -> dict[str, float]:
    """|mean - full|, its standard error, and the root mean square of draw - full, relative."""
    random, times = np.random.default_rng(7), 8000
    columns = [np.ones(60), random.lognormal(0, 0.6, 60), random.normal(size=60)]
    x = torch.from_numpy(np.stack(columns, axis=1).astype(np.float32))
    (everything,) = Full(sampler.graph, layers=1).sample(TARGETS, 0)
    full = aggregate(everything, x[everything.src]).numpy()  # [8, 3]
    size = aggregate(everything, x[everything.src].abs()).numpy()
    off = np.empty((times, *full.shape))
    for step in range(times):
        (block,) = sampler.sample(TARGETS, step)
        off[step] = aggregate(block, x[block.src]).numpy() - full
    values = {"bias": abs(off.mean(0)), "noise": off.std(0, ddof=1) / np.sqrt(times)}
    values["error"] = np.sqrt(np.square(off).mean(0))
    return {name: float((value / size).mean()) for name, value in values.items()}


def hajek_table(found: Found) -> Rows:
    """A line for each sampler."""
    rows = [["sampler"]]
    rows[0] += [f"`{e}`: {what}" for e in ("ht", "hajek") for what in ("bias (noise)", "error")]
    for case, here in found.items():
        cells = [
            [f"{one['bias']:.4f} ({one['noise']:.4f})", f"{one['error']:.3f}"]
            for one in here.values()
        ]
        rows.append([case, *cells[0], *cells[1]])
    return rows


def measure_cluster(root: Path) -> Found:
    """Cluster-GCN: edges cut, and the error of the expected aggregate over the size of the full.

    All nodes and features of the data set, one cluster for 150 nodes, batches of about four
    clusters. The expectation is the mean over 200 epochs; noise is half the difference between
    odd and even ones.
    """
    found: Found = {}
    for name in ("cora", "pubmed"):
        data = load_dataset(name, root)
        found[name] = {way: cluster_bias(data.graph, data.x.numpy(), way) for way in PARTITIONS}
    return found


def cluster_bias(graph: Graph, x: Array, way: str) -> dict[str, float]:
    """|E aggregate - full| / |full|, by way of the mean weight of each edge."""
    nodes = np.arange(graph.num_nodes)
    sampler = ClusterGCN(graph, layers=1, partitioner=None if way == "random" else way)
    if way == "random":
        sampler.part = np.random.default_rng(0).permutation(nodes % sampler.parts)
    sampler.prepare(nodes, round(4 * nodes.size / sampler.parts))
    weight = np.zeros((2, graph.num_edges))  # of even and odd epochs
    for epoch in range(EPOCHS):
        for batch in sampler.batches(epoch):
            (block,) = sampler.sample(batch, epoch)
            weight[epoch % 2, block.edge.numpy()] += block.edge_weight.numpy()
    weight /= EPOCHS / 2
    alpha = np.repeat(graph.target_scale, graph.degree)

    def size(weight: Array) -> float:
        entries = (weight, graph.indices, graph.indptr)
        matrix = scipy.sparse.csr_array(entries, shape=(nodes.size, nodes.size))
        return float(np.linalg.norm(matrix @ x))

    return {
        "clusters of a batch": sampler.parts / len(sampler.batches(0)),
        "cut": edge_cut(graph, sampler.part),
        "bias": size(weight.mean(0) - alpha) / size(alpha),
        "noise": size((weight[0] - weight[1]) / 2) / size(alpha),
    }


def cluster_table(found: Found) -> Rows:
    """A line for each partition."""
    rows = [["", "partition", "clusters of a batch", "edges cut", "bias (noise)"]]
    for name, here in found.items():
        for way, one in here.items():
            cells = [f"{one['clusters of a batch']:.1f}", f"{one['cut']:.3f}"]
            rows.append([name, PARTITIONS[way], *cells, f"{one['bias']:.3f} ({one['noise']:.3f})"])
    return rows


def measure_saint(root: Path) -> Found:
    """`saint-rw`: root of the mean squared relative error of edge weights in 200 fresh batches.

    Counted subgraphs are the paper's C_v / C_uv, from subgraphs with 50 V nodes in all; an edge
    that was never counted counts as once. Counted walks are ours, from 50 V visits. The truth is
    counted in walks with 5,000 V visits; self-loops, whose weights are known, are left out. Walks
    start at training nodes, or at all nodes; a batch has as many as recipe or default say. In
    brackets the share of edges that no counted subgraph had.
    """
    found: Found = {}
    for name in ("pubmed", "cora", "synthetic"):
        dataset, size = load_dataset(name, root), resolve(dataset=name).batch_size
        roots = {"training": dataset.splits["train"].numpy()}
        roots["all"] = np.arange(dataset.graph.num_nodes)
        found[name] = {k: saint_errors(dataset.graph, ids, size) for k, ids in roots.items()}
    return found


def saint_errors(graph: Graph, wanted: Array, batch_size: int) -> dict[str, float]:
    """Errors by what was counted, and how many edges of fresh batches no subgraph had."""

    def make(seed: int, coverage: float) -> SaintWalk:
        sampler = SaintWalk(graph, layers=2, seed=seed, coverage=coverage)
        sampler.prepare(wanted, batch_size)
        return sampler

    truth, walks = chances(make(0, 100 * COVERAGE)), chances(make(1, COVERAGE))
    drawer, step = make(2, COVERAGE), 0
    node_count, edge_count = np.zeros(graph.num_nodes), np.zeros(graph.num_edges)
    while node_count.sum() < COVERAGE * graph.num_nodes:
        block = drawer.sample(wanted, step)[0]
        node_count[block.src.numpy()] += 1
        edge_count[block.edge.numpy()] += 1
        step += 1
    edge = torch.cat([drawer.sample(wanted, step + i)[0].edge for i in range(200)]).numpy()
    target = np.repeat(np.arange(graph.num_nodes), graph.degree)
    edge = edge[graph.indices[edge] != target[edge]]
    subgraphs = np.maximum(edge_count, 1) / np.maximum(node_count[target], 1)

    def error(chance: Array) -> float:  # weights are alpha / chance
        return float(np.sqrt(np.square(truth[edge] / chance[edge] - 1).mean()))

    uncounted = float((edge_count[edge] == 0).mean())
    errors = {"subgraphs": error(subgraphs), "walks": error(walks), "uncounted": uncounted}
    return {"batch_size": batch_size, **errors}


def chances(sampler: SaintWalk) -> Array:
    """p_uv / p_v of every edge u -> v, NaN where no walk gets to v. float32[E]."""
    everything = sampler._induce(np.arange(sampler.graph.num_nodes), 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = sampler._weigh(everything).chance
    by_edge = np.empty(sampler.graph.num_edges, np.float32)
    by_edge[everything.edge] = chance
    return by_edge


def saint_table(found: Found) -> Rows:
    """A line for each data set and kind of roots."""
    rows = [["", "walks from", "of a batch", "counted subgraphs", "counted walks"]]
    for name, here in found.items():
        for nodes, one in here.items():
            cells = [f"{one['subgraphs']:.3f} ({one['uncounted']:.3f})", f"{one['walks']:.3f}"]
            rows.append([name, f"{nodes} nodes", str(one["batch_size"]), *cells])
    return rows


def measure_vrgcn(root: Path) -> Found:
    """VR-GCN: error of sampled logits of Cora's training nodes, over the size of the full ones.

    GraphSAGE, 3 layers of 64, no dropout, otherwise Cora's recipe, is trained for 200 steps with
    `vrgcn` and 2 neighbours; then each sampler draws 50 times for the network, and the history, as
    they are. Root mean square over draws; mean and deviation of 3 training runs.
    """
    dataset = load_dataset("cora", root)
    errors: dict[str, list[float]] = {"vrgcn, 2": [], "neighbor, 2": [], "neighbor, 10": []}
    for seed in range(3):
        given: Found = {"sampler": "vrgcn", "budgets": (2, 2, 2), "steps": 200, "seed": seed}
        config = resolve(dataset="cora", model="sage", layers=3, hidden=64, dropout=0.0, **given)
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(config, dataset, Path(folder) / "run", print)
            for batch in trainer.batches():
                trainer.learn(batch)
        errors["vrgcn, 2"].append(logit_error(trainer, trainer.sampler))
        for fanout in (2, 10):
            sampler = SAMPLERS["neighbor"](trainer.graph, [fanout] * 3, seed=seed)
            errors[f"neighbor, {fanout}"].append(logit_error(trainer, sampler))
    pairs = {name: mean_and_deviation(values) for name, values in errors.items()}
    return {name: {"error": mean, "deviation": spread} for name, (mean, spread) in pairs.items()}


@torch.no_grad()
def logit_error(trainer: Trainer, sampler: Sampler) -> float:
    """sqrt(mean over draws of |sampled - full|^2) / |full|, over training nodes and classes."""
    seeds, model = trainer.dataset.splits["train"], trainer.model.eval()
    full = trainer.logits()[seeds]
    total = 0.0
    for step in range(LATER, LATER + 50):
        blocks = sampler.sample(seeds, step)
        total += float((model(trainer.x[blocks[0].src], blocks) - full).square().sum())
    return float((total / 50) ** 0.5 / full.norm())


def vrgcn_table(found: Found) -> Rows:
    """A line for each sampler."""
    rows = [[k, f"{one['error']:.4f} ± {one['deviation']:.4f}"] for k, one in found.items()]
    return [["sampler, neighbours", "error"], *rows]


MEASURES = {
    "LABOR": (measure_labor, labor_table),
    "Hajek": (measure_hajek, hajek_table),
    "Cluster-GCN": (measure_cluster, cluster_table),
    "GraphSAINT": (measure_saint, saint_table),
    "VR-GCN": (measure_vrgcn, vrgcn_table),
}

if __name__ == "__main__":
    main()
