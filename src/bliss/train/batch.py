"""Batches of a run, without PyG, whose import takes a second and 50 MB in every process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bliss.graph import EdgeType
from bliss.loader import BlockLoader, LinkLoader, Seconds
from bliss.nn.block import Block

_OF_LINKS = ("edge_label_index", "edge_label", "src_index", "dst_pos_index", "dst_neg_index")
_USED = {"x", "y", *_OF_LINKS}
"""Tensors of a batch that networks and losses take."""
_OF_SEEDS = {"y", "input_id", *_OF_LINKS}


class NodeData(SimpleNamespace):
    """Features and labels of nodes, or a batch of them: what `BlockLoader` needs of a PyG `Data`.

    A batch has the attributes that `BlockLoader` describes, among them those declared here.
    """

    x: Tensor  # [V, F]; in a batch [S, F]
    y: Tensor  # [V] or [V, C]; in a batch [B] or [B, C]; of node tasks
    edge_label_index: Tensor  # this and the next: see `LinkLoader`
    edge_label: Tensor
    src_index: Tensor
    dst_pos_index: Tensor
    dst_neg_index: Tensor
    blocks: list[Block]
    n_id: Tensor  # int64[S] sources of the first block
    input_id: Tensor  # int64[B] positions of the seeds
    num_nodes: int
    seconds: Seconds

    def to_dict(self) -> dict[str, Any]:
        """All attributes by name."""
        return vars(self)

    def items(self) -> Iterable[tuple[str, Any]]:
        """All attributes with their names."""
        return vars(self).items()

    def __iter__(self) -> Iterator[str]:
        """Names of the attributes."""
        return iter(vars(self))

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def get(self, name: str) -> Any:
        """An attribute, or None."""
        return vars(self).get(name)

    def is_node_attr(self, name: str) -> bool:
        """Whether an attribute has a row per node."""
        return name in ("x", "y")

    def is_edge_attr(self, name: str) -> bool:
        """Whether an attribute has a row per edge: none has."""
        return False

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def to(self, device: torch.device) -> NodeData:
        """Move features, labels, links and blocks to a device, in place; returns the batch."""
        for name in _USED & vars(self).keys():
            self[name] = getattr(self, name).to(device)
        self.blocks = [block.to(device) for block in vars(self).get("blocks", ())]
        return self


class TypedData(SimpleNamespace):
    """Features and labels by type of nodes: what `BlockLoader` needs of a PyG `HeteroData`."""

    blocks: list[Block]
    seconds: Seconds

    def __init__(self, stores: dict[Any, NodeData], edge_types: Sequence[EdgeType] = ()) -> None:
        super().__init__(stores=stores, edge_types=list(edge_types), _global_store={})

    @property
    def node_types(self) -> list[str]:
        """Types of nodes."""
        return [name for name in self.stores if isinstance(name, str)]

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return sum(self[name].num_nodes for name in self.node_types)

    def __getattr__(self, name: str) -> Tensor:
        """What the seeds of a batch have: that of the only type or relation that has it."""
        for store in self.__dict__.get("stores", {}).values() if name in _OF_SEEDS else ():
            if (found := store.get(name)) is not None:
                value: Tensor = found
                return value
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __getitem__(self, key: Any) -> NodeData:
        store: NodeData = self.stores.setdefault(key, NodeData())
        return store

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def to(self, device: torch.device) -> TypedData:
        """Move features, labels and blocks to a device, in place; returns the batch."""
        for store in self.stores.values():
            store.to(device)
        self.blocks = [block.to(device) for block in self.blocks]
        return self


class NodeLoader(BlockLoader):
    """A `BlockLoader` whose data and batches are `NodeData`, or `TypedData`."""

    def _new_batch(self) -> Any:
        return NodeData() if isinstance(self.data, NodeData) else TypedData({})


class LinkBatchLoader(LinkLoader):
    """A `LinkLoader` with these data and batches. Runs report missing links."""

    _warns_of_absent = False

    def _new_batch(self) -> Any:
        return NodeData() if isinstance(self.data, NodeData) else TypedData({})
