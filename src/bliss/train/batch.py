"""Batches of a run, without PyG, whose import takes a second and 50 MB in every process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from bliss.loader import BlockLoader, LinkLoader, Seconds
from bliss.nn.block import Block

_USED = {
    *("x", "y", "edge_label_index", "edge_label"),
    *("src_index", "dst_pos_index", "dst_neg_index"),
}
"""Tensors of a batch that networks and losses take."""


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
        self.blocks = [block.to(device) for block in self.blocks]
        return self


class NodeLoader(BlockLoader):
    """A `BlockLoader` whose data and batches are `NodeData`."""

    def _new_batch(self) -> Any:
        return NodeData()


class LinkBatchLoader(LinkLoader):
    """A `LinkLoader` whose data and batches are `NodeData`."""

    def _new_batch(self) -> Any:
        return NodeData()
