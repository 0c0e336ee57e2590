"""Task of a run: the graph, the features and the network for given settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bliss.data import Dataset, cache_folder
from bliss.data.feature_encoder import FeatureEncoder
from bliss.errors import InputError, ResourceError
from bliss.graph import WEIGHTED, EdgeType, Graph
from bliss.links import LinkSplits
from bliss.loader.seed_loader import SeedLoader
from bliss.loader.typed_links import TypedLinks
from bliss.nn.block import Block
from bliss.nn.decoders import LightGCN, LinkGNN, RelationalLinkGNN
from bliss.nn.model import GNN
from bliss.nn.model_config import RELATIONAL
from bliss.nn.relational_model import RelationalGNN
from bliss.rng import Stream, derive_key
from bliss.samplers import Full
from bliss.storage.limits import allocating
from bliss.train.batch import NodeData, TypedData
from bliss.train.config import TrainConfig
from bliss.train.config_parts import AUTO
from bliss.train.learnt_rows import LearntBatch, LearntRows
from bliss.train.link_objective import LinkObjective
from bliss.train.link_sides import relation_of, sides_of, split_links
from bliss.train.metrics import selecting_metric
from bliss.train.node_labels import NodeLabels
from bliss.train.node_objective import node_objective
from bliss.train.objective import Objective
from bliss.train.time_task import timed_dataset
from bliss.train.typed_inputs import TypedEncoder, TypedInputs, check_types, typed_inputs


@dataclass(frozen=True)
class Task:
    """A data set, prepared for a network, and the network, for training and evaluation."""

    config: TrainConfig  # with budgets filled in
    dataset: Dataset
    graph: Graph  # the edges that are messages in training, with the network's coefficients
    x: Tensor  # float32 or float16 [V, F + D] on the CPU: features, encoded, then `embedding`
    model: GNN
    device: torch.device
    encoder: FeatureEncoder | TypedEncoder  # of the features
    objective: Objective  # what the network is trained for
    embedding: LearntRows | None = None  # float32[V, D]: the last columns of x, learnt
    typed: TypedInputs | None = None  # of a heterogeneous graph; x is then [V, 0]

    @property
    def features(self) -> Tensor | TypedInputs:
        """Features that batches gather: columns of x that are not learnt [V, F], or `typed`."""
        if self.typed is not None:
            return self.typed
        learnt = 0 if self.embedding is None else self.embedding.value.size(1)
        return self.x[:, : self.x.size(1) - learnt] if learnt else self.x

    def everywhere(self) -> Tensor:
        """Input of the network's first layer at all nodes, for layer-wise inference. [V, F].

        With types, it is computed from the weights as they are.
        """
        if self.typed is None:
            return self.x
        assert isinstance(self.model, RelationalGNN)
        return self.typed.embed(self.model, self.device)

    def at(self, block: Block) -> Any:
        """What the network takes at the sources of a block, on the device of the network."""
        if self.typed is not None:
            return self.typed.at(block.to(self.device))
        return self.x.index_select(0, block.src.cpu()).float().to(self.device)

    @property
    def fixed_inputs(self) -> Any:
        """Inputs of all nodes that do not change, [V, F] or by type, for an exact first hop."""
        return self.x if self.typed is None else self.typed.x

    @property
    def metric(self) -> str:
        """Metric of the score that selects the best step."""
        return self.objective.metric

    @cached_property
    def seed_loader(self) -> SeedLoader:
        """Loader of the training seeds, for studies: any sampler of the graph may draw them."""
        full = Full(self.graph, layers=self.config.network.layers)
        return self.objective.loader(self.features, full)

    def inputs(self, batch: NodeData | TypedData) -> tuple[Any, LearntBatch | None]:
        """Inputs of a batch, [S, F + D] or by type, and its rows of the embedding."""
        if isinstance(batch, TypedData):
            assert self.typed is not None
            return self.typed.of_batch(batch, self.embedding)
        x = batch.x.float()  # features may be float16
        if self.embedding is None:
            return x, None
        learnt = self.embedding.batch(batch.n_id, x.device)
        return torch.cat([x, learnt.rows], 1), learnt

    def graph_of(self, split: str) -> Graph:
        """Graph whose edges are messages when a split is scored; "all": when pairs are predicted.

        Of a node task, it is that of training.
        """
        edges = self.objective.messages(split)
        if edges is self.objective.train_messages:
            return self.graph
        return _graph(edges, self.config)

    @property
    def labels(self) -> NodeLabels:
        """Labels of the nodes of a node task."""
        if not isinstance(self.objective, NodeLabels):
            raise InputError(
                "task='link' is not supported here, where labels of nodes are needed: use "
                "task='node'."
            )
        return self.objective


def build_task(
    config: TrainConfig,
    dataset: Dataset,
    encoder: FeatureEncoder | TypedEncoder | None = None,
    *,
    trains: bool = True,
    scores: bool = True,
) -> Task:
    """Check the settings against the data, and initialise the network from the seed.

    By default, the encoder of the features is fitted to the training nodes of the data. Without
    `trains`, splits may be empty. Without `scores`, links are not split: all edges are messages.
    """
    device = _device(config)
    dataset = timed_dataset(config.objective, dataset, scores)
    network = config.network
    check_types(dataset, network.model, network.is_relational, network.embedding)
    config.sampler.config.check_types(config.sampler.budgets, dataset.graph)
    labels, relation = None, None
    if config.objective.is_link:
        relation = relation_of(dataset, config.objective)
        if relation is not None:
            config = config.with_settings(edge_type=relation.edge_type)
    else:
        labels = node_objective(config, dataset, device, trains)
    has_times = dataset.graph.has_times
    config = config.fitted(dataset.graph.num_nodes, dataset.num_features, has_times)
    torch.manual_seed(torch_seed(config.seed, Stream.WEIGHTS))
    outputs = 0 if labels is None else labels.num_outputs
    model = build_network(config, NetworkSchema.of(dataset), outputs).to(device)
    objective = labels or _link_objective(config, dataset, relation, model, scores)
    encoder = encoder or fit_encoder(config, dataset, objective.train_nodes)
    x, typed = dataset.x, None
    if isinstance(encoder, TypedEncoder):
        typed, embedding = typed_inputs(dataset, encoder, network.embedding)
    else:
        x = encoder.transform_all(x, cache_folder(), lambda: dataset.fingerprint)
        x, embedding = _with_embedding(config, x)
    if embedding is not None:
        _draw(config, embedding)
    graph = _graph(objective.train_messages, config)
    return Task(config, dataset, graph, x, model, device, encoder, objective, embedding, typed)


def _with_embedding(config: TrainConfig, x: Tensor) -> tuple[Tensor, LearntRows | None]:
    """Features and room for an embedding side by side, and the latter. [V, F] -> [V, F + D]."""
    width = config.network.embedding
    if not width:
        return x, None
    with allocating(f"embeddings of {len(x):,} nodes of width {width}", "lower embedding"):
        both = torch.empty(len(x), x.size(1) + width)
        both[:, : x.size(1)] = x
        return both, LearntRows(both[:, x.size(1) :])


def _draw(config: TrainConfig, embedding: LearntRows) -> None:
    """Draw a new embedding: normal entries of deviation D^(-1/2), so that rows have norms of 1.

    Without weights behind it, the deviation is 0.1, as published for LightGCN.
    """
    seed = torch_seed(config.seed, Stream.WEIGHTS, 1)
    deviation = 0.1 if config.network.is_light else config.network.embedding**-0.5
    embedding.draw(deviation, torch.Generator().manual_seed(seed))


class NetworkSchema(NamedTuple):
    """What the shape of a network depends on in the data."""

    features: int
    node_types: Mapping[str, int]  # number of features of each type; empty without types
    edge_types: tuple[EdgeType, ...] = ()

    @classmethod
    def of(cls, dataset: Dataset) -> NetworkSchema:
        """The schema of a dataset."""
        if dataset.typed is None or dataset.graph.types is None:
            return cls(dataset.num_features, {})
        types = dataset.graph.types
        return cls(dataset.num_features, dataset.typed.widths, types.edge_types)


def build_network(config: TrainConfig, schema: NetworkSchema, outputs: int) -> GNN:
    """A new network for such features; of links, with embeddings as outputs and a decoder."""
    if schema.node_types:
        learnt = config.network.embedding
        widths = {name: width or learnt for name, width in schema.node_types.items()}
        if config.objective.is_link:
            decoder = config.objective.decoder
            return RelationalLinkGNN(widths, schema.edge_types, config.network, decoder)
        return RelationalGNN(widths, schema.edge_types, outputs, config.network)
    inputs = schema.features + config.network.embedding
    if inputs == 0:
        raise InputError(
            "the graph has no features: pass a width of learnt embeddings, such as embedding=64 "
            "(--embedding 64), or import features."
        )
    if config.objective.is_link:
        kind = LightGCN if config.network.is_light else LinkGNN
        return kind(inputs, config.network, config.objective.decoder)
    return GNN(inputs, outputs, config.network)


def _link_objective(
    config: TrainConfig, dataset: Dataset, relation: TypedLinks | None, model: GNN, scores: bool
) -> LinkObjective:
    """Split the links, to be trained on or scored; the decoder is that of the network."""
    assert isinstance(model, (LinkGNN, RelationalLinkGNN))
    metric = selecting_metric(config.training.select, LinkObjective.kind, config.network.hidden)
    sides = sides_of(dataset, config, relation)
    splits = split_links(dataset, config, relation) if scores else LinkSplits.none(dataset.graph)
    objective = LinkObjective(
        dataset, config.objective, splits, model.decoder, metric, config.seed, sides, relation
    )
    number = objective.link_scores.num_candidates
    config.objective.check_candidates(number, "add nodes that can be targets")
    return objective


def fit_encoder(
    config: TrainConfig, dataset: Dataset, nodes: Tensor
) -> FeatureEncoder | TypedEncoder:
    """Encoder of the features, with statistics of some nodes [N]; see the setting `features`."""
    method = config.data.features
    if method == AUTO and dataset.imported is None:  # published features stay as they are
        method = "raw"
    if dataset.typed is not None:
        return TypedEncoder.fit(method, dataset, nodes)
    return FeatureEncoder.fit(method, dataset.x, nodes)


def torch_seed(seed: int, *counters: int) -> int:
    """A seed for torch's generator."""
    return int(derive_key(seed, *counters)) >> 1  # torch takes 63 bits


def _device(config: TrainConfig) -> torch.device:
    device = config.training.device
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ResourceError(
            f"device={device!r} is not available, because torch sees no GPU: choose --device cpu."
        )
    return torch.device(device)


def _graph(graph: Graph, config: TrainConfig) -> Graph:
    """The graph with the network's self-loops and coefficients; SAGE keeps given edge weights."""
    if config.data.self_loops == "remove" and graph.types is not None:
        raise InputError(
            "self_loops='remove' has no effect on a heterogeneous graph, to which no self-loops "
            "are added: leave it out."
        )
    if config.data.self_loops == "remove":
        graph = _without_loops(graph)
    if graph.norm in WEIGHTED and config.network.model in ("sage", *RELATIONAL):
        return graph
    return graph.with_norm(config.network.norm)


def _without_loops(graph: Graph) -> Graph:
    """A copy of the graph without self-loops."""
    weight = graph.weight if graph.norm in WEIGHTED else None
    if not graph.has_times:
        arrays = graph.indptr, graph.indices, weight
        return Graph.from_csc(*arrays, norm=graph.norm, self_loops="remove")
    options: dict[str, Any] = {"norm": graph.norm, "self_loops": "remove", "time": graph.time}
    return Graph.from_edge_index(graph.pairs, graph.num_nodes, weight, **options)
