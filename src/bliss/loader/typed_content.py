"""Attributes of batches of a `HeteroData`, by type of nodes and by relation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch import Tensor

from bliss.graph.conversion import hetero_edge_attributes
from bliss.loader.gather import Gather
from bliss.loader.seeds import SeedBatch
from bliss.nn.block import Block
from bliss.samplers.base import Sampler


class TypedContent:
    """Selects the rows of each type of nodes, and of each relation.

    Parameters
    ----------
    data
        The PyG `HeteroData`.
    sampler
        The sampler of the batches, whose graph has the types of the data.
    cache
        Bytes of memory for rows of mapped features `x`, divided among types by their bytes.
    """

    def __init__(self, data: Any, sampler: Sampler, cache: int = 0) -> None:
        assert sampler.graph.types is not None
        self.data, self.types = data, sampler.graph.types
        self._has_edge_ids = sampler.graph.edge_id is not None
        self._of_edges = hetero_edge_attributes(data)
        self._stores = {kind: data[kind] for kind in (*self.types.node_types, *self._of_edges)}
        sizes = {name: getattr(data[name].get("x"), "nbytes", 0) for name in self.types.node_types}
        whole = max(sum(sizes.values()), 1)
        self.gathers = {
            name: Gather(data, sampler, cache * size // whole, name) for name, size in sizes.items()
        }

    @property
    def edge_attributes(self) -> set[str]:
        """Names of attributes with a row per edge, of any relation."""
        return set().union(*self._of_edges.values())

    def check(self) -> None:
        """Raise an error if a mapped file was cut short."""
        for gather in self.gathers.values():
            gather.check()

    def renew(self) -> None:
        """Cache the rows that the sampler is now most likely to draw."""
        for gather in self.gathers.values():
            gather.renew()

    def fill(
        self, batch: Any, blocks: Sequence[Block], seeds: SeedBatch, skipped: Collection[str]
    ) -> None:
        """Set the attributes of a batch, except those that are skipped."""
        self._fill_nodes(batch, blocks)
        self._fill_edges(batch, blocks, skipped)
        for name, value in self.data._global_store.items():
            batch[name] = value
        for kind, named in seeds.attributes_by_type(blocks[-1].dst).items():
            for name, value in named.items():
                batch[kind][name] = value

    def _fill_nodes(self, batch: Any, blocks: Sequence[Block]) -> None:
        for name, n_id in blocks[0].by_type.src_id.items():
            gather, store, own = self.gathers[name], self._stores[name], batch[name]
            gather.check_sizes(store)
            for key, value in store.items():
                if isinstance(value, Tensor) and store.is_node_attr(key):
                    rows = blocks[-1].by_type.dst_id[name] if key == "y" else n_id
                    value = gather(key, value, rows)
                own[key] = value
            own.n_id = n_id
            own.num_nodes = n_id.numel()

    def _fill_edges(self, batch: Any, blocks: Sequence[Block], skipped: Collection[str]) -> None:
        for number, (edge_type, of_edges) in enumerate(self._of_edges.items()):
            own = batch[edge_type]
            if self._has_edge_ids:
                own.e_id = [block.e_id[block.by_type.edge_place[number]] for block in blocks]
            store = self._stores[edge_type]
            for key in store:
                if key in skipped:
                    continue
                value = store[key]
                if key in of_edges:
                    if self._has_edge_ids and isinstance(value, Tensor):
                        own[key] = [value.index_select(0, ids) for ids in own.e_id]
                    continue
                own[key] = value
