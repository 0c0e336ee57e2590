"""`TypedView`: the sources, targets and edges of a block by type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import EdgeType, GraphTypes, Rows

if TYPE_CHECKING:
    from bliss.nn.block import Block


class TypedView:
    """A block of a graph with types, in parts by type.

    The rows of a type are in the order of `Block.src`, so the targets of a type come first among
    its sources. Arrays are computed from the block on the CPU when they are first used.

    Parameters
    ----------
    block
        The block, or its copy on a device.
    types
        Types of its graph.
    rows
        The edges that its targets could see.
    """

    def __init__(self, block: Block, types: GraphTypes, rows: Rows) -> None:
        self.types, self.rows = types, rows
        self.device = block.row.device
        self._draw = block.origin or block
        self.num_src, self.num_dst = block.num_src, block.num_dst

    def _on_device(self, array: IntArray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    @cached_property
    def relation(self) -> Tensor:
        """Relation of each kept edge. int64[E']."""
        assert self._draw.group_indptr is not None
        return self._on_device(np.repeat(self.rows.relation, self._draw.group_indptr.diff()))

    @cached_property
    def group_indptr(self) -> Tensor:
        """Kept edges of each group of rows. int64[G + 1]."""
        assert self._draw.group_indptr is not None
        return self._draw.group_indptr.to(self.device)

    @cached_property
    def owner(self) -> Tensor:
        """Position in dst of each group's target. int64[G]."""
        return self._on_device(np.asarray(self.rows.owner, np.int64))

    @cached_property
    def group_place(self) -> list[Tensor]:
        """Positions of the groups of each relation, in order. R tensors int64[G_r]."""
        return [self._on_device(part) for part in self._by_relation(self.rows.relation)]

    def _by_relation(self, relation: IntArray) -> list[IntArray]:
        """Positions of each relation in an array of relations, in order."""
        order = np.argsort(relation, kind="stable")
        number = np.bincount(relation, minlength=len(self.types.edge_types))
        return np.split(order, np.cumsum(number)[:-1])

    @cached_property
    def _places(self) -> list[IntArray]:
        return self.types.places(self._draw.src.numpy())

    @cached_property
    def src_place(self) -> list[Tensor]:
        """Positions in src of the sources of each type. T tensors int64[S_t]."""
        return [self._on_device(place) for place in self._places]

    @cached_property
    def num_dst_by_type(self) -> list[int]:
        """Number of targets of each type."""
        return [int(np.searchsorted(place, self.num_dst)) for place in self._places]

    @cached_property
    def local(self) -> Tensor:
        """Position of each source among those of its type. int64[S]."""
        local = np.empty(self.num_src, np.int64)
        for place in self._places:
            local[place] = np.arange(place.size)
        return self._on_device(local)

    @cached_property
    def edge_place(self) -> list[Tensor]:
        """Positions of the kept edges of each relation, in order. R tensors int64[E_r]."""
        relation = self.relation.cpu().numpy()
        return [self._on_device(part) for part in self._by_relation(relation)]

    def edge_index_dict(self, block: Block) -> dict[EdgeType, Tensor]:
        """Kept edges of each relation, as positions within the types of their ends. [2, E_r]."""
        ends = torch.stack([self.local[block.row], self.local[block.col]])
        pairs = zip(self.types.edge_types, self.edge_place, strict=True)
        return {edge_type: ends[:, place] for edge_type, place in pairs}

    def split(self, x: Tensor) -> dict[str, Tensor]:
        """Rows of sources, or of targets, by type. [S, ...] or [D, ...] -> {type: [n, ...]}."""
        if x.size(0) not in (self.num_src, self.num_dst):
            raise InputError(
                f"x has {x.size(0)} rows, but the block has {self.num_src} sources and "
                f"{self.num_dst} targets: pass one row for each of them."
            )
        places = zip(self.types.node_types, self.src_place, self.num_dst_by_type, strict=True)
        is_src = x.size(0) == self.num_src
        return {
            name: x.index_select(0, place if is_src else place[:targets])
            for name, place, targets in places
        }

    def join(self, x: Mapping[str, Tensor]) -> Tensor:
        """The inverse of `split`: rows of all types, of one width, in the order of src or dst."""
        given = [x[name] for name in self.types.node_types if name in x]
        number = sum(part.size(0) for part in given)
        numbers = self.num_dst_by_type if number == self.num_dst != self.num_src else None
        place = [
            own if numbers is None else own[: numbers[kind]]
            for kind, own in enumerate(self.src_place)
        ]
        present = [p for p, name in zip(place, self.types.node_types, strict=True) if name in x]
        order = torch.cat(present)
        if order.numel() != number or number not in (self.num_src, self.num_dst):
            raise InputError(
                f"x has {number} rows in all, but the block has {self.num_src} sources and "
                f"{self.num_dst} targets: pass the rows of all types."
            )
        return torch.cat(given).index_select(0, torch.argsort(order))
