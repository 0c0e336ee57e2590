"""PyG's GraphSAGE in `Blockwise` beside our own layers: the time of a step, and test F1.

PPI, 3 layers of 256 with batch normalisation, batches of 512, one thread, the same loop for both:
sampling, gathering, forward, backward, Adam and the sampler's update. The two networks take
turns, a different one first each time; a ratio is the median over pairs of consecutive steps.
`scores` trains both for STEPS steps and evaluates them with full neighbourhoods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from benchmarks.graphs import data_root
from bliss import Bliss, BlockLoader
from bliss.data import Dataset, load_dataset
from bliss.nn import GNN, Blockwise, ModelConfig, infer
from bliss.train.metrics import micro_f1

LAYERS, HIDDEN, BATCH = 3, 256, 512
WARM_UP = 8
STEPS, SEEDS, RATE = 500, (0, 1, 2, 3), 0.005
CASES: dict[str, dict[str, Any]] = {
    "sampled": {"budgets": [1024, 1024, 1024], "first_hop": "sampled"},
    "first_hop": {"budgets": [1024, 1024], "first_hop": "exact"},
    "history": {"budgets": [512, 512], "history": "nodes"},
}
NETWORKS = ("own", "pyg")


class Training:
    """One network with a sampler of its own, step by step."""

    def __init__(self, dataset: Dataset, case: str, network: str, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.graph = dataset.graph.with_norm("mean")
        data = Data(x=dataset.x, y=dataset.y, edge_index=self.graph.edge_index)
        widths = [dataset.num_features, *[HIDDEN] * (LAYERS - 1)]
        needed = {"x": data.x} if CASES[case].get("first_hop") != "sampled" else {}
        needed |= {"widths": widths} if "history" in CASES[case] else {}
        self.sampler = Bliss(self.graph, **CASES[case], **needed, seed=seed)
        self.loader = BlockLoader(
            data, self.sampler, dataset.splits["train"], batch_size=BATCH, shuffle=True
        )
        self.model = make(network, dataset)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE)
        self.batches = self._batches()

    def _batches(self) -> Iterator[Any]:
        while True:
            yield from self.loader

    def step(self) -> None:
        """One step of training."""
        batch = next(self.batches)
        out = self.model(batch.x, batch.blocks)
        loss = functional.binary_cross_entropy_with_logits(out, batch.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.sampler.update(batch.blocks)


def make(network: str, dataset: Dataset) -> nn.Module:
    """Our layers, or PyG's model, each with initial weights of its own."""
    inputs, outputs = dataset.num_features, dataset.num_classes
    if network == "pyg":
        return Blockwise(GraphSAGE(inputs, HIDDEN, LAYERS, outputs, norm="batch_norm"))
    config = ModelConfig(
        model="sage", layers=LAYERS, hidden=HIDDEN, dropout=0.0, normalisation="batch"
    )
    return GNN(inputs, outputs, config)


def run(repeats: int = 41, parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure times, scores, or both; returns what is written as JSON."""
    torch.set_num_threads(1)
    dataset = load_dataset("ppi", data_root())
    result: dict[str, Any] = {
        "settings": {"cases": CASES, "batch": BATCH, "hidden": HIDDEN, "steps": STEPS, "lr": RATE}
    }
    for part in parts or PARTS:
        result[part] = PARTS[part](dataset, repeats)
        print(part, result[part], flush=True)
    return result


def times(dataset: Dataset, repeats: int) -> dict[str, Any]:
    """Milliseconds of a step of both networks, and their ratio, by case."""
    found: dict[str, Any] = {}
    for case in CASES:
        trainings = {network: Training(dataset, case, network) for network in NETWORKS}
        taken: dict[str, list[float]] = {network: [] for network in NETWORKS}
        for turn in range(WARM_UP + repeats):
            for network in NETWORKS if turn % 2 else reversed(NETWORKS):
                started = perf_counter()
                trainings[network].step()
                taken[network].append(1e3 * (perf_counter() - started))
        own, pyg = (taken[network][WARM_UP:] for network in NETWORKS)
        ratio = median(b / a for a, b in zip(own, pyg, strict=True))
        found[case] = {"own_ms": median(own), "pyg_ms": median(pyg), "pyg_over_own": ratio}
    return found


def scores(dataset: Dataset, repeats: int) -> dict[str, Any]:
    """Test F1 of both networks by seed, with an exact first hop and with a history."""
    found: dict[str, Any] = {}
    for case in ("first_hop", "history"):
        found[case] = {network: [] for network in NETWORKS}
        for network in NETWORKS:
            for seed in SEEDS:
                training = Training(dataset, case, network, seed)
                for _ in range(STEPS):
                    training.step()
                found[case][network].append(test_f1(training, dataset))
    return found


@torch.no_grad()
def test_f1(training: Training, dataset: Dataset) -> float:
    """Micro-F1 of the test nodes with full neighbourhoods."""
    training.model.eval()
    out: Tensor = infer(training.model, training.graph, dataset.x)
    nodes = dataset.splits["test"]
    return float(micro_f1(out[nodes], dataset.y[nodes]))


PARTS = {"times": times, "scores": scores}
