"""Measures sources, biases and errors of the samplers; docs/subgraphs.md quotes some.

`python -m experiments.estimates.estimates --root DATA` measures everything with fixed seeds and
writes results.json and estimates.md. The docstring of each measurement is printed above its
table.
"""

from __future__ import annotations

import argparse
import json
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
from bliss.samplers import ClusterGCN, Full, SaintWalk, Sampler, sampler_config
from bliss.samplers.partition import edge_cut
from bliss.studies.curves import mean_and_deviation
from bliss.studies.provenance import machine
from bliss.train import Stepper, Task, build_task, full_logits, resolve

HERE = Path(__file__).parent
COMMAND = "python -m experiments.estimates.estimates --root DATA"
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])  # of the small graph: 41 to 3 in-edges
HAJEK = {  # name of the sampler, budget, coefficients
    "`labor`, fanout 5": ("labor", 5, "mean"),
    "`labor-1`, fanout 5": ("labor-1", 5, "mean"),
    "`neighbor`, fanout 5, given weights": ("neighbor", 5, "weights"),
    "`fastgcn`, 40 draws": ("fastgcn", 40, "mean"),
    "`fastgcn`, 20 draws": ("fastgcn", 20, "mean"),
}
PARTITIONS = {"metis": "METIS", "random": "random parts"}
EPOCHS = 200  # of cluster batches
COVERAGE = 50  # mean visits of a node by the counted walks
LATER = 1 << 40  # step numbers that training does not use

Array = npt.NDArray[Any]
Found = dict[str, Any]
Rows = list[list[str]]  # a table, header first


SUMMARY = """\
LABOR needs fewer sources than neighbour sampling, above all at small fanouts. `hajek` has a smaller
error than `ht` in every case below, and a bias. Cluster-GCN is biased: the error of its expected
aggregate is a fifth to a quarter with METIS, and more than two thirds with random parts. Counting
walks about halves the error of GraphSAINT's edge weights where walks start at training nodes.
"""


def main() -> None:
    """Measure everything; write results.json and estimates.md."""
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
    (HERE / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (HERE / "estimates.md").write_text(page(found), encoding="utf-8")


def page(found: Found) -> str:
    """The Markdown page with all tables."""
    facts, seconds = found["machine"], found["seconds"]
    lines = [
        f"# Bias and error of the samplers\n\n{SUMMARY}\n    {found['command']}\n",
        f"{sum(seconds.values()):.0f} s on one thread of {facts['processor']}, with other work on "
        f"the machine; torch {facts['torch']}, Python {facts['python']}.",
    ]
    for name, (measure, table) in MEASURES.items():
        header, *rows = table(found[name])
        notes = cleandoc(measure.__doc__ or "")
        lines.append(f"\n## {name}\n\n{notes}\n\n{seconds[name]:.0f} s.\n")
        lines += [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
        lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def measure_labor(root: Path) -> Found:
    """LABOR and neighbour sampling: sources of the input layer and kept edges of all layers.

    Flickr's topology, 1,000 seeds, 3 layers, mean of 5 draws. The column `neighbor` gives the
    number of sources. The other columns give the ratio of sources to those of `neighbor` and, in
    brackets, the ratio of kept edges.
    """
    graph = Graph.from_scipy(scipy.sparse.load_npz(root / "Flickr" / "raw" / "adj_full.npz"))
    seeds = np.random.default_rng(0).permutation(graph.num_nodes)[:1000]
    found: Found = {}
    for fanout in (5, 10, 20):
        names = ("neighbor", "labor", "labor-1", "labor-*")
        samplers = {name: sampler_config(name).build(graph, [fanout] * 3) for name in names}
        if fanout == 10:
            samplers["shared"] = sampler_config("labor", shared=True).build(graph, [fanout] * 3)
        found[str(fanout)] = {name: sizes(sampler, seeds) for name, sampler in samplers.items()}
    return found


def sizes(sampler: Sampler, seeds: Array) -> dict[str, float]:
    """Mean numbers of input sources and of kept edges of all layers, over 5 draws."""
    drawn = [sampler.sample(seeds, step) for step in range(5)]
    edges = sum(block.num_edges for blocks in drawn for block in blocks)
    return {"sources": sum(blocks[0].num_src for blocks in drawn) / 5, "edges": edges / 5}


def labor_table(found: Found) -> Rows:
    """One row per fanout."""
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

    60 nodes with heavy-tailed degrees (the graph of the tests), 8,000 draws. Bias and error are
    absolute values divided by the aggregate of absolute features, and averaged over 3 features
    (ones, positive numbers, signed numbers) and 8 targets. One target has 3 in-edges, all of which
    node-wise samplers keep. Noise is the standard error of the mean, averaged in the same way. An
    unbiased estimator shows a bias of about 0.8 times the noise.
    """
    found: Found = {}
    for case, (name, budget, norm) in HAJEK.items():
        graph = heavy_tailed_graph(norm)
        found[case] = {
            estimator: bias_and_error(
                sampler_config(name, estimator=estimator).build(graph, [budget])
            )
            for estimator in ("ht", "hajek")
        }
    return found


def heavy_tailed_graph(norm: Any) -> Graph:
    """The 60-node graph of the tests, with heavy-tailed in- and out-degrees."""
    random = np.random.default_rng(3)
    chance = np.arange(1, 61) ** -0.8
    sender, receiver = random.choice(60, size=(2, 800), p=chance / chance.sum())
    pairs = np.unique(np.stack([random.permutation(60)[sender], receiver]), axis=1)
    weight = random.lognormal(0, 0.5, pairs.shape[1]) if norm == "weights" else None
    return Graph.from_edge_index(pairs, num_nodes=60, weight=weight, norm=norm)


def bias_and_error(sampler: Sampler) -> dict[str, float]:
    """Relative |mean - full|, its standard error, and root mean square of draw - full."""
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
    """One row per sampler."""
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
    """Cluster-GCN: share of edges cut, and relative error of the expected aggregate.

    All nodes and features of the data set, one cluster per 150 nodes, batches of about four
    clusters. The error is divided by the norm of the full aggregate. The expectation is the mean
    over 200 epochs; noise is half the difference between odd and even epochs.
    """
    found: Found = {}
    for name in ("cora", "pubmed"):
        data = load_dataset(name, root)
        found[name] = {way: cluster_bias(data.graph, data.x.numpy(), way) for way in PARTITIONS}
    return found


def cluster_bias(graph: Graph, x: Array, way: str) -> dict[str, float]:
    """|E aggregate - full| / |full|, from the mean weight of each edge."""
    nodes = np.arange(graph.num_nodes)
    sampler = ClusterGCN(graph, layers=1)
    if way == "random":
        sampler.part = np.random.default_rng(0).permutation(nodes % sampler.parts)
    sampler.prepare(nodes, round(4 * nodes.size / sampler.parts))
    weight = np.zeros((2, graph.num_edges))  # even epochs, odd epochs
    for epoch in range(EPOCHS):
        for batch in sampler.batches(epoch):
            (block,) = sampler.sample(batch, epoch)
            weight[epoch % 2, block.edge.numpy()] += block.edge_weight.numpy()
    weight /= EPOCHS / 2
    alpha = np.repeat(graph.rows(np.arange(graph.num_nodes)).target_scale, graph.degree)

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
    """One row per partition."""
    rows = [["", "partition", "clusters per batch", "edges cut", "bias (noise)"]]
    for name, here in found.items():
        for way, one in here.items():
            cells = [f"{one['clusters of a batch']:.1f}", f"{one['cut']:.3f}"]
            rows.append([name, PARTITIONS[way], *cells, f"{one['bias']:.3f} ({one['noise']:.3f})"])
    return rows


def measure_saint(root: Path) -> Found:
    """`saint-rw`: root mean squared relative error of the edge weights in 200 fresh batches.

    "Counted subgraphs" is the paper's C_v / C_uv from subgraphs with 50 V nodes in total; an edge
    that was never counted is given a count of one. "Counted walks" is our method, from walks with
    50 V visits. The reference values come from walks with 5,000 V visits. Self-loops are left out,
    because their weights are known. Walks start at training nodes or at all nodes; the number of
    walks per batch is that of the recipe or the default. Brackets give the share of edges that no
    counted subgraph contained.
    """
    found: Found = {}
    for name in ("pubmed", "cora", "synthetic"):
        dataset, size = load_dataset(name, root), resolve(dataset=name).training.batch_size
        roots = {"training": dataset.splits["train"].numpy()}
        roots["all"] = np.arange(dataset.graph.num_nodes)
        found[name] = {k: saint_errors(dataset.graph, ids, size) for k, ids in roots.items()}
    return found


def saint_errors(graph: Graph, wanted: Array, batch_size: int) -> dict[str, float]:
    """Errors of both ways of counting, and the share of edges that no subgraph contained."""

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

    def error(chance: Array) -> float:  # a weight is alpha / chance
        return float(np.sqrt(np.square(truth[edge] / chance[edge] - 1).mean()))

    uncounted = float((edge_count[edge] == 0).mean())
    errors = {"subgraphs": error(subgraphs), "walks": error(walks), "uncounted": uncounted}
    return {"batch_size": batch_size, **errors}


def chances(sampler: SaintWalk) -> Array:
    """p_uv / p_v of every edge u -> v; NaN where no walk reaches v. float32[E]."""
    everything = sampler._induce(np.arange(sampler.graph.num_nodes), 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = sampler._weigh(everything).chance
    by_edge = np.empty(sampler.graph.num_edges, np.float32)
    by_edge[everything.edge] = chance
    return by_edge


def saint_table(found: Found) -> Rows:
    """One row per data set and kind of roots."""
    rows = [["", "walks from", "walks per batch", "counted subgraphs", "counted walks"]]
    for name, here in found.items():
        for nodes, one in here.items():
            cells = [f"{one['subgraphs']:.3f} ({one['uncounted']:.3f})", f"{one['walks']:.3f}"]
            rows.append([name, f"{nodes} nodes", str(one["batch_size"]), *cells])
    return rows


def measure_vrgcn(root: Path) -> Found:
    """VR-GCN: relative error of the sampled logits of Cora's training nodes.

    GraphSAGE with 3 layers of 64, no dropout, otherwise Cora's recipe, is trained for 200 steps
    with `vrgcn` and 2 neighbours. Then network and history are held fixed, and each sampler draws
    50 times. The error is the root mean square over draws divided by the norm of the full logits;
    mean and standard deviation of 3 training runs.
    """
    dataset = load_dataset("cora", root)
    errors: dict[str, list[float]] = {"vrgcn, 2": [], "neighbor, 2": [], "neighbor, 10": []}
    for seed in range(3):
        given: Found = {"sampler": "vrgcn", "budgets": (2, 2, 2), "steps": 200, "seed": seed}
        config = resolve(dataset="cora", model="sage", layers=3, hidden=64, dropout=0.0, **given)
        task = build_task(config, dataset)
        stepper = Stepper(task)
        for batch in stepper.batches():
            stepper.step(batch)
        errors["vrgcn, 2"].append(logit_error(task, stepper.sampler))
        for fanout in (2, 10):
            sampler = sampler_config("neighbor").build(task.graph, [fanout] * 3, seed=seed)
            errors[f"neighbor, {fanout}"].append(logit_error(task, sampler))
    pairs = {name: mean_and_deviation(values) for name, values in errors.items()}
    return {name: {"error": mean, "deviation": spread} for name, (mean, spread) in pairs.items()}


@torch.no_grad()
def logit_error(task: Task, sampler: Sampler) -> float:
    """sqrt(mean over draws of |sampled - full|^2) / |full|, over training nodes and classes."""
    seeds, model = task.dataset.splits["train"], task.model.eval()
    full = full_logits(task)[seeds]
    total = 0.0
    for step in range(LATER, LATER + 50):
        blocks = sampler.sample(seeds, step)
        total += float((model(task.x[blocks[0].src], blocks) - full).square().sum())
    return float((total / 50) ** 0.5 / full.norm())


def vrgcn_table(found: Found) -> Rows:
    """One row per sampler."""
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
