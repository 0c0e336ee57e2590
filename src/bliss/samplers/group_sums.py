"""Sums over whole groups of the graph, of numbers that all nodes, or those of a type, have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bliss.arrays import Array, BoolArray, FloatArray, IntArray
from bliss.graph import Graph, Rows

_CHUNK = 2**25  # bytes of sums that are computed at a time


@dataclass(frozen=True, eq=False)
class Sources:
    """All nodes or, if widths differ, those of one type; and the groups that have such sources.

    In a graph without types, or with one width for all types, there is one such part, with all
    nodes and all groups. Otherwise there is one for each type of nodes.
    """

    graph: Graph
    node_type: int | None = None  # None: all types

    @classmethod
    def of_types(cls, graph: Graph) -> list[Sources]:
        """A part for each type of nodes."""
        assert graph.types is not None
        return [cls(graph, t) for t in range(len(graph.types.node_types))]

    @cached_property
    def nodes(self) -> slice:
        """Ids of the nodes."""
        if self.node_type is None:
            return slice(0, self.graph.num_nodes)
        assert self.graph.types is not None
        first, stop = self.graph.types.node_ptr[self.node_type : self.node_type + 2]
        return slice(int(first), int(stop))

    @property
    def num_nodes(self) -> int:
        """Number of these nodes."""
        return int(self.nodes.stop - self.nodes.start)

    @cached_property
    def _groups(self) -> IntArray:
        """Groups of the graph with sources of one type, increasing. int64[Q_t]."""
        assert self.graph.types is not None
        return np.flatnonzero(self._is_own(self.graph.types.group_relation))

    def _is_own(self, relation: IntArray) -> BoolArray:
        assert self.graph.types is not None
        is_own: BoolArray = self.graph.types.ends[0][relation] == self.node_type
        return is_own

    @property
    def num_groups(self) -> int:
        """Number of groups of the graph that have such sources, rows of a table of their sums."""
        return self.graph.group_ptr.size - 1 if self.node_type is None else self._groups.size

    def own(self, rows: Rows) -> Rows:
        """The groups of some rows that have such sources."""
        if self.node_type is None:
            return rows
        return rows.of_groups(np.flatnonzero(self._is_own(rows.relation)))

    def place(self, own: Rows) -> IntArray:
        """Rows of a table of sums that belong to the result of `own`. int64[G]."""
        group = own.group_id
        return group if self.node_type is None else np.searchsorted(self._groups, group)

    def full_sums(self, own: Rows, value: Array) -> FloatArray:
        """Sums over the visible edges of the result of `own`. value [N, F] -> float32[G, F]."""
        return own.full_sums(value, self.nodes.start)

    def visible_sums(self, own: Rows, whole: FloatArray, value: Array) -> FloatArray:
        """The same, from sums over whole groups [G, F], which may be changed in place."""
        return own.visible_sums(whole, value, self.nodes.start)

    def fill(self, table: FloatArray, value: Array) -> None:
        """Write the sums over all groups of the graph. table [Q, F], value [N, F]."""
        size = max(1, _CHUNK // max(4 * value.shape[1], 1))
        for start in range(0, self.graph.num_nodes, size):
            targets = np.arange(start, min(start + size, self.graph.num_nodes))
            own = self.own(self.graph.rows(targets))
            place = self.place(own)
            if place.size:
                table[place[0] : place[-1] + 1] = self.full_sums(own, value)
