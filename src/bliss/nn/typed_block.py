"""`TypedView`: the sources, targets and edges of a block by type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import EdgeType, GraphTypes, Rows
from bliss.nn.control import of_relation

if TYPE_CHECKING:
    from bliss.nn.block import Block


class TypedView:
    """A block of a heterogeneous graph, in parts by type.

    The rows of a type are in the order of `Block.src`, so the targets of a type come first among
    its sources. Arrays are computed from the block on the CPU when they are first used.
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

    @cached_property
    def groups_by_source(self) -> list[Tensor]:
        """Positions of the groups with sources of each type, in order. T tensors int64[G_t]."""
        kind = self.types.ends[0][self.rows.relation]
        numbers = range(len(self.types.node_types))
        return [self._on_device(np.flatnonzero(kind == number)) for number in numbers]

    def _by_relation(self, relation: IntArray) -> list[IntArray]:
        """Positions of each relation in an array of relations, in order."""
        order = np.argsort(relation, kind="stable")
        number = np.bincount(relation, minlength=len(self.types.edge_types))
        return np.split(order, np.cumsum(number)[:-1])

    @cached_property
    def _split(self) -> tuple[list[IntArray], list[IntArray]]:
        return self.types.split(self._draw.src.numpy())

    @property
    def _places(self) -> list[IntArray]:
        return self._split[0]

    @property
    def src_id(self) -> dict[str, Tensor]:
        """Sources as ids within their types, on the CPU. {type: int64[S_t]}."""
        ids = map(torch.from_numpy, self._split[1])
        return dict(zip(self.types.node_types, ids, strict=True))

    @property
    def dst_id(self) -> dict[str, Tensor]:
        """Targets as ids within their types, on the CPU. {type: int64[D_t]}."""
        sources = zip(self.src_id.items(), self.num_dst_by_type, strict=True)
        return {name: ids[:targets] for (name, ids), targets in sources}

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

    def relations(self, block: Block) -> RelationBlocks:
        """The edges of each relation as a block; see `Block.relations`."""
        return RelationBlocks(block, self)

    def relation_block(self, block: Block, number: int) -> Block:
        """The edges of one relation."""
        edge_type = self.types.edge_types[number]
        place = self.edge_place[number]
        source, target = self.types.ends[:, number]
        targets = self.src_place[target][: self.num_dst_by_type[target]]
        col = self.local[block.col[place]]
        bounds = torch.arange(targets.numel() + 1, device=self.device)
        rows = self.rows.of_relation(number, targets.cpu().numpy())
        kept = self.group_indptr.diff()[self.group_place[number]]
        control = None if block.control is None else of_relation(block.control, self, number)
        return replace(
            block,
            dst=block.dst[targets],
            src=block.src[self.src_place[source]],
            indptr=torch.searchsorted(col, bounds),
            row=self.local[block.row[place]],
            edge=block.edge[place],
            edge_prob=block.edge_prob[place],
            edge_weight=block.edge_weight[place],
            prob=None if block.prob is None else block.prob[self.src_place[source]],
            dst_weight=None,
            watch="none",
            control=control,
            observation=None,
            origin=None if block.origin is None else block.origin.relations[edge_type],
            rows=rows,
            group_indptr=torch.cat([kept.new_zeros(1), kept.cumsum(0)]),
            cutoff=None,
            edge_type=edge_type,
        )

    def padded(self, x: Mapping[str, Tensor], width: int = 1) -> Tensor:
        """Rows of the sources of all types, padded by zeros to one width. {type: ...} -> [S, F].

        F is the largest width, and at least `width`. A type that is missing, because no layer uses
        it, has rows of zeros.
        """
        given = {name: value for name, value in x.items() if name in self.types.node_types}
        width = max([width, *(value.size(1) for value in given.values())])
        kind = next(iter(given.values())).dtype if given else torch.float32
        out = torch.zeros(self.num_src, width, dtype=kind, device=self.device)
        for name, place in zip(self.types.node_types, self.src_place, strict=True):
            if name not in given:
                continue
            rows = given[name].detach()
            if rows.size(0) != place.numel():
                raise InputError(
                    f"x[{name!r}] has {rows.size(0)} rows, but the block has {place.numel()} "
                    "sources of this type: pass one row for each."
                )
            out[place, : rows.size(1)] = rows.to(kind)
        return out

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


class RelationBlocks(Mapping[EdgeType, "Block"]):
    """The block of each relation, made when it is first used."""

    def __init__(self, block: Block, view: TypedView) -> None:
        self._block, self._view = block, view
        self._numbers = {edge_type: n for n, edge_type in enumerate(view.types.edge_types)}
        self._made: dict[EdgeType, Block] = {}

    def __getitem__(self, edge_type: EdgeType) -> Block:
        if edge_type not in self._made:
            made = self._view.relation_block(self._block, self._numbers[edge_type])
            self._made[edge_type] = made
        return self._made[edge_type]

    def __iter__(self) -> Iterator[EdgeType]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)
