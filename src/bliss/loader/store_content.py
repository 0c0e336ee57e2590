"""Attributes of batches from a pair of PyG's FeatureStore and GraphStore."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from bliss.errors import InputError
from bliss.graph.stores import is_of_edges, store_sizes
from bliss.loader.seeds import SeedBatch
from bliss.nn.block import Block
from bliss.samplers.base import Sampler


class StorePair:
    """A FeatureStore and a GraphStore in the place of a PyG `Data`."""

    edge_index = None

    def __init__(self, feature_store: Any, graph_store: Any) -> None:
        self.feature_store, self.graph_store = feature_store, graph_store

    def __getitem__(self, key: Any) -> StorePair:
        return self

    def check(self, sampler: Sampler) -> None:
        """Raise an error unless a sampler's graph has the nodes of the stores."""
        sizes = store_sizes(self.feature_store, self.graph_store)
        types = sampler.graph.types
        own = {None: sampler.graph.num_nodes} if types is None else types.num_nodes
        wrong = [name for name, size in sizes.items() if size and own.get(name) != size]
        if wrong:
            raise InputError(
                f"the stores have the nodes {sizes}, but the sampler's graph has {own}: build the "
                "sampler from the same stores."
            )


class StoreContent:
    """Reads all attributes of a batch by one call of `FeatureStore.multi_get_tensor`.

    Parameters
    ----------
    stores
        The stores.
    sampler
        The sampler of the batches.
    """

    def __init__(self, stores: StorePair, sampler: Sampler) -> None:
        self.store, self.types = stores.feature_store, sampler.graph.types
        self._has_edge_ids = sampler.graph.edge_id is not None
        self._attributes = [
            attr
            for attr in self.store.get_all_tensor_attrs()
            if self._has_edge_ids or not is_of_edges(attr.group_name)
        ]

    @property
    def edge_attributes(self) -> set[str]:
        """Names of attributes with a row per edge, of any relation."""
        attrs = self.store.get_all_tensor_attrs()
        return {attr.attr_name for attr in attrs if is_of_edges(attr.group_name)}

    def check(self) -> None:
        """Do nothing: stores check their files themselves."""

    def renew(self) -> None:
        """Do nothing: stores have caches of their own."""

    def fill(
        self, batch: Any, blocks: Sequence[Block], seeds: SeedBatch, skipped: Collection[str]
    ) -> None:
        """Set the attributes of a batch, except those that are skipped."""
        nodes: dict[Any, Tensor] = {None: blocks[0].src}
        targets: dict[Any, Tensor] = {None: blocks[-1].dst}
        if self.types is not None:
            nodes, targets = blocks[0].by_type.src_id, blocks[-1].by_type.dst_id
        edges = self._edges(blocks)
        wanted = []
        for attr in self._attributes:
            if attr.attr_name in skipped:
                continue
            one = copy.copy(attr)
            group = attr.group_name
            if is_of_edges(group):
                one.index = torch.cat(edges[group if self.types else None]).clamp(min=0)
            else:
                one.index = (targets if attr.attr_name == "y" else nodes)[group]
            wanted.append(one)
        values = self.store.multi_get_tensor(wanted, convert_type=True)
        for attr, value in zip(wanted, values, strict=True):
            group = attr.group_name
            if is_of_edges(group):
                value = _by_block(value, edges[group if self.types else None])
            self._owner(batch, group)[attr.attr_name] = value
        self._name(batch, blocks, nodes, edges)
        self._name_seeds(batch, blocks, seeds)

    def _owner(self, batch: Any, group: Any) -> Any:
        return batch if self.types is None else batch[group]

    def _edges(self, blocks: Sequence[Block]) -> dict[Any, list[Tensor]]:
        """Ids of the edges of each block, by relation."""
        if not self._has_edge_ids:
            return {}
        if self.types is None:
            return {None: [block.e_id for block in blocks]}
        return {
            edge_type: [block.e_id[block.by_type.edge_place[number]] for block in blocks]
            for number, edge_type in enumerate(self.types.edge_types)
        }

    def _name(
        self,
        batch: Any,
        blocks: Sequence[Block],
        nodes: dict[Any, Tensor],
        edges: dict[Any, list[Tensor]],
    ) -> None:
        """Set the ids and numbers of nodes and edges."""
        for group, ids in nodes.items():
            own = self._owner(batch, group)
            own.n_id, own.num_nodes = ids, ids.numel()
        for group, parts in edges.items():
            self._owner(batch, group).e_id = parts
        if self.types is None:
            batch.num_edges = sum(block.num_edges for block in blocks)

    def _name_seeds(self, batch: Any, blocks: Sequence[Block], seeds: SeedBatch) -> None:
        targets = blocks[-1].dst
        if self.types is not None:
            for kind, named in seeds.attributes_by_type(targets).items():
                for name, value in named.items():
                    batch[kind][name] = value
            return
        for name, value in seeds.attributes(targets).items():
            batch[name] = value
        batch.batch_size = targets.numel()


def _by_block(value: Tensor, ids: list[Tensor]) -> list[Tensor]:
    """Rows of each block; zeros for self-loops that were added."""
    parts = torch.split(value, [part.numel() for part in ids])
    shape = [1] * (value.ndim - 1)
    return [
        part.masked_fill((own < 0).view(-1, *shape), 0)
        for part, own in zip(parts, ids, strict=True)
    ]
