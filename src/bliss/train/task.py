"""Task of a run: the graph, the features and the network for given settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import isnan

import torch
from torch import Tensor

from bliss.data import Dataset, cache_folder
from bliss.data.feature_encoder import FeatureEncoder
from bliss.errors import InputError, ResourceError
from bliss.graph import WEIGHTED, Graph
from bliss.nn.model import GNN
from bliss.rng import Stream, derive_key
from bliss.train.config import TrainConfig
from bliss.train.config_parts import AUTO
from bliss.train.losses import TargetScale, balanced_weights, criterion, node_losses
from bliss.train.metrics import FUNCTIONS, selecting_metric
from bliss.train.results import METRICS

_NUMBERS = 2**24  # outputs whose losses are computed at a time


@dataclass(frozen=True)
class Task:
    """A data set, prepared for a network, and the network, for training and evaluation."""

    config: TrainConfig  # with budgets filled in
    dataset: Dataset
    graph: Graph  # with the network's coefficients
    x: Tensor  # float32 or float16 [V, F] on the CPU, encoded
    model: GNN
    device: torch.device
    encoder: FeatureEncoder  # of the features
    y: Tensor  # labels on the CPU as the loss takes them: targets are standardised
    scale: TargetScale | None = None  # of the targets; None for classes and labels
    class_weight: Tensor | None = None  # float32[C] on the device

    @property
    def metric(self) -> str:
        """Metric of the score that selects the best step."""
        return selecting_metric(
            self.config.training.select, self.dataset.task, self.dataset.num_outputs
        )

    def loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Training loss of outputs for rows of `y`; weight [N] is each node's share of the loss."""
        return criterion(
            outputs.float(),
            y,
            weight,
            class_weight=self.class_weight,
            is_regression=self.scale is not None,
        )

    def node_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Loss of each node, from outputs and rows of `y` on the CPU. [N]."""
        loss = partial(
            node_losses,
            class_weight=None if self.class_weight is None else self.class_weight.cpu(),
            is_regression=self.scale is not None,
        )
        rows = max(_NUMBERS // max(outputs.size(1), 1), 1)
        parts = zip(torch.split(outputs, rows), torch.split(y, rows), strict=True)
        return torch.cat([loss(part.float(), own) for part, own in parts])

    def predictions(self, outputs: Tensor) -> Tensor:
        """Outputs of the network: logits, or targets in the user's units. [N, C] or [N, T]."""
        return outputs if self.scale is None else self.scale.restore(outputs)


def build_task(
    config: TrainConfig,
    dataset: Dataset,
    encoder: FeatureEncoder | None = None,
    *,
    trains: bool = True,
) -> Task:
    """Check the settings against the data, and initialise the network from the seed.

    By default, the encoder of the features is fitted to the training nodes of the data. Without
    `trains`, splits may be empty.
    """
    _check(config, dataset, trains)
    config = config.fitted(dataset.graph.num_nodes)
    device = torch.device(config.training.device)
    torch.manual_seed(torch_seed(config.seed, Stream.WEIGHTS))
    model = GNN(dataset.num_features, dataset.num_outputs, config.network).to(device)
    encoder = encoder or fit_encoder(config, dataset)
    scale = None
    if dataset.is_regression:
        scale = TargetScale.of(dataset.y[dataset.splits["train"]])
    weight = _class_weight(config, dataset)
    return Task(
        config,
        dataset,
        _graph(dataset.graph, config),
        encoder.transform_all(dataset.x, cache_folder(), lambda: dataset.fingerprint),
        model,
        device,
        encoder,
        y=dataset.y if scale is None else scale.standardise(dataset.y),
        scale=scale,
        class_weight=None if weight is None else weight.to(device),
    )


def fit_encoder(config: TrainConfig, dataset: Dataset) -> FeatureEncoder:
    """Encoder of the features, with statistics of training nodes; see the setting `features`."""
    method = config.data.features
    if method == AUTO and dataset.imported is None:  # published features stay as they are
        method = "raw"
    return FeatureEncoder.fit(method, dataset.x, dataset.splits["train"])


def torch_seed(seed: int, *counters: int) -> int:
    """A seed for torch's generator."""
    return int(derive_key(seed, *counters)) >> 1  # torch takes 63 bits


def _check(config: TrainConfig, dataset: Dataset, trains: bool) -> None:
    if dataset.num_outputs == 0:
        raise InputError(
            f"{dataset.name!r} has no labels, but training needs them: import it with --labels."
        )
    for name in ("train", "val", "test") if trains else ():
        if name not in dataset.splits or len(dataset.splits[name]) == 0:
            raise InputError(
                f"the {name} split of {dataset.name!r} is empty, but training needs all three: "
                "import the graph with train, validation and test nodes."
            )
    if trains:
        _check_metric(config, dataset)
    device = config.training.device
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ResourceError(
            f"device={device!r} is not available, because torch sees no GPU: choose --device cpu."
        )


def _check_metric(config: TrainConfig, dataset: Dataset) -> None:
    """Refuse a metric that does not fit the task, or is not defined for a split."""
    outputs = dataset.num_outputs
    metric = selecting_metric(config.training.select, dataset.task, outputs)
    for name, nodes in dataset.splits.items() if METRICS[metric].is_ranking else ():
        if isnan(FUNCTIONS[metric](torch.zeros(len(nodes), outputs), dataset.y[nodes])):
            raise InputError(
                f"select={metric!r} is not defined for the {name} split of {dataset.name!r}, which "
                "lacks positive or negative nodes: choose another metric or other splits."
            )


def _class_weight(config: TrainConfig, dataset: Dataset) -> Tensor | None:
    """Weights of the classes in the loss, float32[C]; None if all are 1."""
    given = config.data.class_weights
    if given == "none":
        return None
    if dataset.is_regression:
        raise InputError(
            f"class_weights={given!r} was given, but {dataset.name!r} has targets of a regression "
            "and no classes: leave it out."
        )
    if given == "balanced":
        return balanced_weights(dataset.y[dataset.splits["train"]], dataset.num_classes)
    if len(given) != dataset.num_classes:
        raise InputError(
            f"class_weights has {len(given)} numbers, but {dataset.name!r} has "
            f"{dataset.num_classes} classes: give one number per class."
        )
    return torch.tensor(given, dtype=torch.float32)


def _graph(graph: Graph, config: TrainConfig) -> Graph:
    """The graph with the network's self-loops and coefficients; SAGE keeps given edge weights."""
    if config.data.self_loops == "remove":
        weight = graph.weight if graph.norm in WEIGHTED else None
        arrays = graph.indptr, graph.indices, weight
        graph = Graph.from_csc(*arrays, norm=graph.norm, self_loops="remove")
    if graph.norm in WEIGHTED and config.network.model == "sage":
        return graph
    return graph.with_norm(config.network.norm)
