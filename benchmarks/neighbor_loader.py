"""PyG's `NeighborLoader` beside this library: the time of a step, and test F1 after equal seconds.

PPI, PyG's `GraphSAGE` with 3 layers of 256 and batch normalisation, batches of 512, one thread, no
worker processes. `NeighborLoader` draws 10 neighbours per node and layer, and the model runs over
the whole subgraph of a batch. Trimmed, the outermost hop is dropped after each layer (PyG's
`trim_to_layer`); pyg-lib returns the counts for this, and with torch-sparse they are found from the
order of the edges. The others run the same model in `Blockwise`. All take turns, a different one
first each time. `scores` trains each of them for the steps that fit into SECONDS and evaluates it
with full neighbourhoods.

It needs torch-sparse; README.md says how to install it beside the project.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

from benchmarks.graphs import data_root
from bliss import Bliss, BlockLoader, Graph
from bliss.data import Dataset, load_dataset
from bliss.nn import Blockwise, infer
from bliss.samplers import Neighbor, Sampler
from bliss.train.metrics import micro_f1

LAYERS, HIDDEN, BATCH, FANOUT = 3, 256, 512, 10
WARM_UP, SECONDS, SEEDS, RATE = 8, 30, (1, 2, 3), 0.01
LOADERS = {"NeighborLoader": False, "NeighborLoader, trimmed": True}
"""PyG's loader, and whether layers are trimmed."""
_BLISS = {"kind": Bliss, "estimator": "hajek"}
SAMPLERS: dict[str, dict[str, Any]] = {
    "neighbor": {"kind": Neighbor, "budgets": [FANOUT] * LAYERS},
    "bliss": {**_BLISS, "budgets": [1024] * LAYERS, "first_hop": "sampled"},
    "bliss, exact first hop": {**_BLISS, "budgets": [1024] * 2, "first_hop": "exact"},
    "bliss, history": {"kind": Bliss, "budgets": [512] * 2, "history": "nodes"},
}
"""Samplers of this library."""
PARTS = ("times", "scores")
RESULTS = Path(__file__).parent / "results" / "neighbor_loader.json"
SIDES = (*LOADERS, *SAMPLERS)


class Training:
    """PyG's model with one side, step by step; the learning rate falls linearly to 0."""

    def __init__(self, dataset: Dataset, side: str, seed: int = 0, steps: int = 10**9) -> None:
        torch.manual_seed(seed)
        self.graph = dataset.graph.with_norm("mean")
        inputs, outputs = dataset.num_features, dataset.num_classes
        self.model = GraphSAGE(inputs, HIDDEN, LAYERS, outputs, norm="batch_norm")
        data = Data(x=dataset.x, y=dataset.y, edge_index=self.graph.edge_index)
        options = {"batch_size": BATCH, "shuffle": True}
        train = dataset.splits["train"]
        if side in LOADERS:
            loader = NeighborLoader(data, [FANOUT] * LAYERS, input_nodes=train, **options)
            self.forward = trimmed(self.model) if LOADERS[side] else whole(self.model)
            self.update = ignore
        else:
            sampler = build(side, self.graph, dataset, seed)
            loader = BlockLoader(data, sampler, train, **options)
            self.forward, self.update = over_blocks(self.model), sampler.update
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.0, steps)
        self.batches = forever(loader)

    def step(self) -> None:
        """One step of training."""
        batch = next(self.batches)
        out = self.forward(batch)
        loss = functional.binary_cross_entropy_with_logits(out, batch.y[: len(out)])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.update(getattr(batch, "blocks", None))


def whole(model: GraphSAGE) -> Callable[[Any], torch.Tensor]:
    """The model over the subgraph of a batch of `NeighborLoader`."""
    return lambda batch: model(batch.x, batch.edge_index)[: batch.batch_size]


def trimmed(model: GraphSAGE) -> Callable[[Any], torch.Tensor]:
    """The same without the outermost hop after each layer."""

    def forward(batch: Any) -> torch.Tensor:
        nodes, edges = hops(batch.edge_index, batch.batch_size)
        out: torch.Tensor = model(
            batch.x,
            batch.edge_index,
            num_sampled_nodes_per_hop=nodes,
            num_sampled_edges_per_hop=edges,
        )
        return out[: batch.batch_size]

    return forward


def hops(edge_index: torch.Tensor, seeds: int) -> tuple[list[int], list[int]]:
    """Numbers of nodes and of edges by hop. edge_index [2, E] -> LAYERS + 1 and LAYERS numbers.

    Nodes are numbered and edges are sorted by hop: the edges of a hop end at the nodes that the hop
    before has found.
    """
    source, target = edge_index
    nodes, edges, known = [seeds], list[int](), seeds
    for _ in range(LAYERS):
        end = int(torch.searchsorted(target, known))  # targets are in the order of their numbers
        begin = sum(edges)
        found = max(known, int(source[begin:end].max()) + 1) if end > begin else known
        edges.append(end - begin)
        nodes.append(found - known)
        known = found
    return nodes, edges


def over_blocks(model: GraphSAGE) -> Callable[[Any], torch.Tensor]:
    """The model over the blocks of a batch."""
    blockwise = Blockwise(model)
    return lambda batch: blockwise(batch.x, batch.blocks)


def build(side: str, graph: Graph, dataset: Dataset, seed: int) -> Sampler:
    """A sampler of this library."""
    options = dict(SAMPLERS[side])
    kind = options.pop("kind")
    if "history" in options or options.get("first_hop") == "exact":
        options["x"] = dataset.x
    if "history" in options:
        options["widths"] = [dataset.num_features, *[HIDDEN] * (LAYERS - 1)]
    sampler: Sampler = kind(graph, **options, seed=seed)
    return sampler


def ignore(_: Any) -> None:
    """PyG's loader learns nothing from a batch."""


def forever(loader: Any) -> Iterator[Any]:
    """Batches of one epoch after another."""
    while True:
        yield from loader


def run(repeats: int = 41, parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure times, scores for the steps that fit, or both; returns what is written as JSON.

    Without the part "times", those of RESULTS are taken: scores may share the machine.
    """
    torch.set_num_threads(1)
    dataset = load_dataset("ppi", data_root())
    settings = {"batch": BATCH, "hidden": HIDDEN, "fanout": FANOUT, "lr": RATE, "seconds": SECONDS}
    result: dict[str, Any] = {"settings": settings}
    if "times" in (parts or PARTS):
        result["times"] = times(dataset, repeats)
        print(result["times"], flush=True)
    if "scores" in (parts or PARTS):
        measured = result.get("times") or json.loads(RESULTS.read_text(encoding="utf-8"))["times"]
        result["scores"] = scores(dataset, measured)
    return result


def times(dataset: Dataset, repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a step of each side, and their ratio to those of the first."""
    trainings = {side: Training(dataset, side) for side in SIDES}
    taken: dict[str, list[float]] = {side: [] for side in SIDES}
    for turn in range(WARM_UP + repeats):
        first = turn % len(SIDES)
        for side in (*SIDES[first:], *SIDES[:first]):
            started = perf_counter()
            trainings[side].step()
            taken[side].append(1e3 * (perf_counter() - started))
    ms = {side: median(taken[side][WARM_UP:]) for side in SIDES}
    return {side: {"ms": ms[side], "over_first": ms[side] / ms[SIDES[0]]} for side in SIDES}


def scores(
    dataset: Dataset, measured: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, Any]]:
    """Test and validation F1 of each side by seed, after SECONDS worth of steps."""
    found: dict[str, dict[str, Any]] = {}
    for side in SIDES:
        steps = int(1e3 * SECONDS / measured[side]["ms"])
        found[side] = {"steps": steps, "test": [], "val": []}
        for seed in SEEDS:
            training = Training(dataset, side, seed, steps)
            for _ in range(steps):
                training.step()
            for split, score in evaluate(training, dataset).items():
                found[side][split].append(score)
        print(side, found[side], flush=True)
    return found


@torch.no_grad()
def evaluate(training: Training, dataset: Dataset) -> dict[str, float]:
    """Micro-F1 of test and validation nodes with full neighbourhoods."""
    training.model.eval()
    out = infer(Blockwise(training.model), training.graph, dataset.x)
    nodes = {split: dataset.splits[split] for split in ("test", "val")}
    return {split: float(micro_f1(out[own], dataset.y[own])) for split, own in nodes.items()}
