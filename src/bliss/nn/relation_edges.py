"""Edges of a block by group, a target and a relation, and by relation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from bliss.kernels.frontier import group_by_target

if TYPE_CHECKING:
    from bliss.nn.block import Block


class EdgeGroups(Protocol):
    """Edges grouped by target: what sums and attention need of a `Block`, which is one."""

    @property
    def indptr(self) -> Tensor:
        """Edges of target t: indptr[t] to indptr[t + 1]. int64[D + 1]."""

    @property
    def row(self) -> Tensor:
        """Position of each edge's source. int64[E']."""

    @property
    def col(self) -> Tensor:
        """Position of each edge's target. int64[E']."""

    @property
    def num_dst(self) -> int:
        """D."""

    @property
    def edge_prob(self) -> Tensor:
        """Probability that each edge was kept. float32[E']."""

    @property
    def by_source(self) -> tuple[Tensor, Tensor]:
        """Edges grouped by source: pointers int64[S + 1], order int64[E']."""


def edges_by_source(row: Tensor, col: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, Tensor]:
    """Edges grouped by source, in the order of their targets: pointers and order."""
    if row.device.type == "cpu":
        indptr, order = group_by_target(col.numpy(), row.numpy(), max(num_src, num_dst))
        return torch.from_numpy(indptr[: num_src + 1]), torch.from_numpy(order)
    sorted_row, order = torch.sort(row, stable=True)
    bounds = torch.arange(num_src + 1, device=row.device)
    return torch.searchsorted(sorted_row, bounds), order


@dataclass(frozen=True, eq=False)
class PartEdges:
    """Some edges of a block, whose targets are groups: pairs of a target and a relation."""

    indptr: Tensor  # int64[G + 1]
    row: Tensor  # int64[E'] position of the source
    edge_prob: Tensor  # float32[E']
    num_src: int

    @property
    def num_dst(self) -> int:
        """Number of groups, G."""
        return self.indptr.numel() - 1

    @cached_property
    def col(self) -> Tensor:
        """Group of each edge. int64[E']."""
        groups = torch.arange(self.num_dst, device=self.indptr.device)
        return groups.repeat_interleave(self.indptr.diff(), output_size=self.row.numel())

    @cached_property
    def by_source(self) -> tuple[Tensor, Tensor]:
        """Edges grouped by source."""
        return edges_by_source(self.row, self.col, self.num_src, self.num_dst)


@dataclass(frozen=True, eq=False)
class RelationPart:
    """The groups of one relation in a block, and their edges."""

    edges: PartEdges  # sources are those of the relation's source type, in order
    edge_place: Tensor  # int64[E_r] positions of the edges in the block
    owner: Tensor  # int64[G_r] position of each group's target in dst


def message_sizes(block: Block, x: Tensor, maps: Tensor) -> Tensor:
    """|W_r h_j| of each kept edge, from source j under relation r. float32[E'].

    x [S, F]: h_j, maps [R, out, F]: W_r
    """
    view = block.by_type
    sizes = torch.zeros(block.num_edges, device=x.device)
    for relation, place in enumerate(view.edge_place):
        if place.numel():
            sources = view.src_place[int(view.types.ends[0, relation])]
            messages = x.index_select(0, sources).float() @ maps[relation].float().T
            size = torch.linalg.vector_norm(messages, dim=1, dtype=torch.float32)
            sizes[place] = size[view.local[block.row[place]]]
    return sizes


def relation_parts(block: Block) -> list[RelationPart]:
    """The groups and edges of each relation, by its number. Groups without edges are left out."""
    view = block.by_type
    number = view.group_indptr.diff()
    source_type = view.types.ends[0]
    parts = []
    for relation, (edge_place, place) in enumerate(
        zip(view.edge_place, view.group_place, strict=True)
    ):
        kept = place[number[place] > 0]
        indptr = torch.zeros(kept.numel() + 1, dtype=torch.int64, device=kept.device)
        torch.cumsum(number[kept], 0, out=indptr[1:])
        edges = PartEdges(
            indptr,
            view.local[block.row[edge_place]],
            block.edge_prob[edge_place],
            view.src_place[int(source_type[relation])].numel(),
        )
        parts.append(RelationPart(edges, edge_place, view.owner[kept]))
    return parts
