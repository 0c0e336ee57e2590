"""Inputs of networks of heterogeneous graphs: features by type, and learnt rows of other types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bliss.data import Dataset, cache_folder
from bliss.data.feature_encoder import FeatureEncoder
from bliss.data.typed_nodes import TypedNodes
from bliss.errors import InputError
from bliss.graph import GraphTypes
from bliss.loader.gather import Gather
from bliss.nn.block import Block
from bliss.nn.inference import OUTPUT_BYTES_IN_MEMORY, evaluating
from bliss.nn.relational_model import RelationalGNN
from bliss.samplers.base import Sampler
from bliss.storage.limits import allocating
from bliss.train.batch import NodeData, TypedData
from bliss.train.learnt_rows import LearntBatch, LearntRows


@dataclass(frozen=True)
class TypedEncoder:
    """An encoder of the features of each type, in the order of types."""

    encoders: Mapping[str, FeatureEncoder]

    @classmethod
    def fit(cls, method: str, dataset: Dataset, nodes: Tensor) -> TypedEncoder:
        """Encoders with statistics of the training nodes int64[N], and of all nodes of other types.

        The nodes of other types have no labels, so that their statistics say nothing about them.
        """
        typed, types = nodes_of(dataset)
        own = types.range_of(typed.node_type)
        chosen = {name: torch.arange(len(x)) for name, x in typed.x.items()}
        chosen[typed.node_type] = nodes[(nodes >= own.start) & (nodes < own.stop)] - own.start
        return cls(
            {
                name: FeatureEncoder.fit(method if x.size(1) else "raw", x, chosen[name])
                for name, x in typed.x.items()
            }
        )

    @property
    def num_changed(self) -> int:
        """Number of columns of all types that are standardised or divided."""
        return sum(encoder.num_changed for encoder in self.encoders.values())

    def transform(self, x: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Encoded rows by type, in memory."""
        return {name: self.encoders[name].transform(rows) for name, rows in x.items()}

    def transform_all(self, dataset: Dataset) -> dict[str, Tensor]:
        """Encoded features of all nodes, by type; large ones are kept in files."""
        typed, _ = nodes_of(dataset)
        return {
            name: self.encoders[name].transform_all(
                x,
                cache_folder(),
                lambda t=t: f"{dataset.fingerprint}-{t}",  # type: ignore[misc]
            )
            for t, (name, x) in enumerate(typed.x.items())
        }

    def to_dict(self) -> dict[str, Tensor]:
        """Statistics by the number of a type and their name."""
        return {
            f"{t}.{name}": tensor
            for t, encoder in enumerate(self.encoders.values())
            for name, tensor in encoder.to_dict().items()
        }

    @classmethod
    def from_dict(cls, method: str, values: Mapping[str, Any], types: list[str]) -> TypedEncoder:
        """The inverse of `to_dict`, for the setting `method`."""
        parts: list[dict[str, Any]] = [{} for _ in types]
        for name, tensor in values.items():
            number, _, own = name.partition(".")
            if not number.isdigit() or int(number) >= len(types):
                raise ValueError(f"statistics {name!r} are of no type of nodes")
            parts[int(number)][own] = tensor
        pairs = zip(types, parts, strict=True)
        return cls({name: FeatureEncoder.from_dict(method, part) for name, part in pairs})


@dataclass(frozen=True)
class TypedInputs:
    """Inputs of a network by type: encoded features, or rows of the embedding."""

    types: GraphTypes
    x: Mapping[str, Tensor]  # [n_t, F_t]; of a type without features, rows of the embedding
    learnt: Mapping[str, int]  # first row, in the embedding, of each type without features

    @property
    def widths(self) -> dict[str, int]:
        """Width of the input of each type."""
        return {name: x.size(1) for name, x in self.x.items()}

    def data(self) -> TypedData:
        """What loaders gather batches from: the features that are not learnt."""
        stores = {
            name: NodeData(num_nodes=number, **({} if name in self.learnt else {"x": self.x[name]}))
            for name, number in self.types.num_nodes.items()
        }
        return TypedData(stores, self.types.edge_types)

    def of_batch(
        self, batch: TypedData, embedding: LearntRows | None
    ) -> tuple[dict[str, Tensor], LearntBatch | None]:
        """Inputs of a batch by type, and its rows of the embedding."""
        x = {name: batch[name].x.float() for name in self.x if name not in self.learnt}
        if embedding is None:
            return x, None
        own = [batch[name].n_id + first for name, first in self.learnt.items()]
        learnt = embedding.batch(torch.cat(own), batch.blocks[0].row.device)
        parts = torch.split(learnt.rows, [part.numel() for part in own])
        return x | dict(zip(self.learnt, parts, strict=True)), learnt

    def gathers(self, sampler: Sampler) -> dict[str, Gather]:
        """What reads mapped rows of each type as loaders read them, for `at`."""
        data = TypedData({name: NodeData(x=x) for name, x in self.x.items()})
        return {name: Gather(data, sampler, node_type=name) for name in self.x}

    def at(self, block: Block, gathers: Mapping[str, Gather] | None = None) -> dict[str, Tensor]:
        """Inputs at the sources of a block, by type, on its device."""
        inputs = {}
        for name, ids in block.by_type.src_id.items():
            x = self.x[name]
            rows = x.index_select(0, ids) if gathers is None else gathers[name]("x", x, ids)
            inputs[name] = rows.float().to(block.row.device)
        return inputs

    def embed(self, model: RelationalGNN, device: torch.device) -> Tensor:
        """The input of the network's first layer at all nodes. float32[V, hidden]."""
        with evaluating(model):
            return model.embed_all(self.x, device, Path(cache_folder()), OUTPUT_BYTES_IN_MEMORY)


def nodes_of(dataset: Dataset) -> tuple[TypedNodes, GraphTypes]:
    """Nodes and types of a dataset that has some."""
    assert dataset.typed is not None
    assert dataset.graph.types is not None
    return dataset.typed, dataset.graph.types


def typed_inputs(
    dataset: Dataset, encoder: TypedEncoder, width: int
) -> tuple[TypedInputs, LearntRows | None]:
    """Encoded features, and an embedding of so many columns of the types without features."""
    typed, types = nodes_of(dataset)
    x = encoder.transform_all(dataset)
    missing, total = {}, 0
    for name in typed.without_features:
        missing[name] = total
        total += types.num_nodes[name]
    embedding = None
    if missing:
        with allocating(f"embeddings of {total:,} nodes of width {width}", "lower embedding"):
            embedding = LearntRows(torch.empty(total, width))
        for name, first in missing.items():
            x[name] = embedding.value[first : first + types.num_nodes[name]]
    return TypedInputs(types, x, missing), embedding


def check_types(dataset: Dataset, model: str, is_relational: bool, embedding: int) -> None:
    """Raise an error unless network, embedding and data go together, in their types."""
    if (dataset.typed is not None) != is_relational:
        has, remedy = "no types of nodes and edges", "sage or gatv2"
        if dataset.typed is not None:
            has, remedy = "types of nodes and edges", "rsage or rgat"
        raise InputError(
            f"dataset={dataset.name!r} has {has}, which model={model!r} does not take: choose "
            f"model {remedy}."
        )
    if dataset.typed is None:
        return
    missing = dataset.typed.without_features
    if missing and not embedding:
        raise InputError(
            f"type{'s' if len(missing) > 1 else ''} {', '.join(missing)} of {dataset.name!r} "
            f"{'have' if len(missing) > 1 else 'has'} no features: pass a width of learnt "
            "embeddings, such as embedding=64 (--embedding 64), or import features."
        )
    if embedding and not missing:
        raise InputError(
            f"embedding={embedding} has no effect, because all types of {dataset.name!r} have "
            "features: leave it out."
        )
