"""Links of one relation of a heterogeneous graph: ids, hidden edges, negatives and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import NO_IDS, BoolArray, IntArray
from bliss.errors import InputError
from bliss.graph import EdgeType, Graph, GraphTypes, HiddenEdges
from bliss.graph.stores import is_store_pair, stored_pairs
from bliss.links import NegativeSampling


class RelationGraph(NamedTuple):
    """The edges of one relation as a graph of all nodes, and their ids in the whole graph."""

    graph: Graph
    edge: IntArray  # int64[E_r]

    @classmethod
    def of(cls, graph: Graph, relation: int) -> RelationGraph:
        """The edges of a relation. O(E)."""
        types = graph.types
        assert types is not None
        size = np.diff(types.group_start)
        edge = np.flatnonzero(np.repeat(types.group_relation == relation, size))
        target = np.searchsorted(graph.indptr, edge, side="right") - 1
        count = np.bincount(target, minlength=graph.num_nodes)
        indptr = np.concatenate([[0], np.cumsum(count)])
        time = graph.time[edge] if graph.has_times else NO_IDS
        return cls(Graph(indptr, graph.indices[edge], time=time), edge)

    def holds(self, source: IntArray, target: IntArray) -> BoolArray:
        """Whether the relation has the edge source_n -> target_n. int64[N] each."""
        found = np.zeros(source.size, bool)
        found[self.graph.edges_between(source, target)[0]] = True
        return found

    def edges_between(self, source: IntArray, target: IntArray) -> IntArray:
        """Ids in the whole graph of the edges source_n -> target_n."""
        edges: IntArray = self.edge[HiddenEdges.between(self.graph, source, target).edge]
        return edges


class TypedLinks:
    """A relation whose links are predicted.

    Parameters
    ----------
    graph
        The graph, with types.
    edge_type
        The relation, in full or by a unique name.
    rev_edge_types
        The reverse relation, or a dictionary from relations to their reverse. None: the relation
        with the name of this one after "rev_" (or without it); of relations from a type to itself,
        the relation itself.
    """

    def __init__(self, graph: Graph, edge_type: Any, rev_edge_types: Any = None) -> None:
        assert graph.types is not None
        self.graph, self.types = graph, graph.types
        self.number = self.types.relation(edge_type)
        self.edge_type: EdgeType = self.types.edge_types[self.number]
        source, _, target = self.edge_type
        self.sides = self.types.range_of(source), self.types.range_of(target)
        self.own = RelationGraph.of(graph, self.number)
        self._reverse = self._reverse_number(rev_edge_types)

    def _reverse_number(self, given: Any) -> int | None:
        source, name, target = self.edge_type
        if given is not None:
            pairs = given if isinstance(given, Mapping) else {self.edge_type: given}
            numbers = {self.types.relation(k): self.types.relation(v) for k, v in pairs.items()}
            number = numbers.get(self.number)
            reverse = None if number is None else self.types.edge_types[number]
            if reverse is not None and reverse[::2] != (target, source):
                raise InputError(
                    f"rev_edge_types={reverse} does not lead from {target} to {source}, as the "
                    f"reverse of {self.edge_type} would: name another relation, or leave it out."
                )
            return number
        for other in (f"rev_{name}", name.removeprefix("rev_")):
            if (target, other, source) in self.types.edge_types and other != name:
                return self.types.edge_types.index((target, other, source))
        return self.number if source == target else None

    @property
    def reverse_type(self) -> EdgeType | None:
        """The reverse relation by its names."""
        return None if self._reverse is None else self.types.edge_types[self._reverse]

    @property
    def edges(self) -> IntArray:
        """Ids in the graph of all edges of the relation and of its reverse. int64[M]."""
        parts = [self.own.edge] if self.reverse is None else [self.own.edge, self.reverse.edge]
        return np.unique(np.concatenate(parts))

    @cached_property
    def reverse(self) -> RelationGraph | None:
        """The reverse relation."""
        if self._reverse is None:
            return None
        is_own = self._reverse == self.number
        return self.own if is_own else RelationGraph.of(self.graph, self._reverse)

    def check_reverse(self, source: IntArray, target: IntArray) -> None:
        """Refuse a relation that holds most links in reverse, and is not known as the reverse."""
        if self._reverse is not None:
            return
        for number, (kind, name, other) in enumerate(self.types.edge_types):
            if (kind, other) != (self.edge_type[2], self.edge_type[0]):
                continue
            if RelationGraph.of(self.graph, number).holds(target, source).mean() > 0.5:
                raise InputError(
                    f"most links of {self.edge_type} are edges of {(kind, name, other)} in "
                    "reverse, which a network could read: pass rev_edge_types="
                    f"{(kind, name, other)} (--rev-edge-type {kind},{name},{other}), or "
                    "exclude='self' to see them."
                )

    def pairs(self, field: str, given: Any) -> IntArray:
        """Links [2, P] from ids within the types of their ends to ids of the graph."""
        array = checks.as_array(field, given)
        if array.ndim != 2 or array.shape[0] != 2:
            raise InputError(
                f"{field} has shape {array.shape}, but must be [2, P], sources over targets: "
                "transpose it if it is [P, 2]."
            )
        ends = []
        for side, own, name in zip(array, self.sides, self.edge_type[::2], strict=True):
            ids = checks.node_ids(f"{field} ({name})", side, own.stop - own.start)
            ends.append(ids.astype(np.int64) + own.start)
        return np.stack(ends)

    def hidden(self, source: IntArray, target: IntArray, exclude: str) -> HiddenEdges:
        """Edges of these links, and with exclude="reverse" their reverse in both relations."""
        edges = [self.own.edges_between(source, target)]
        if exclude == "reverse" and self.reverse is not None:
            edges.append(self.reverse.edges_between(target, source))
            if self.edge_type[0] == self.edge_type[2]:  # v -> u may be an edge, too
                edges.append(self.own.edges_between(target, source))
                edges.append(self.reverse.edges_between(source, target))
        return HiddenEdges.of(self.graph, np.concatenate(edges))

    def sampling(self, sampling: NegativeSampling) -> NegativeSampling:
        """Weights of all nodes, so that negatives are of the types of the links' ends."""
        weights = {
            field: self._weight(field, getattr(sampling, field), own)
            for field, own in zip(("src_weight", "dst_weight"), self.sides, strict=True)
        }
        if sampling.mode == "triplet":
            weights.pop("src_weight")
        return replace(sampling, **weights)

    def _weight(self, field: str, weight: Any, own: slice) -> Any:
        every = np.zeros(self.graph.num_nodes)
        if weight is None:
            every[own] = 1.0
        elif isinstance(weight, Real):
            power = checks.not_negative(field, float(weight), "it is the power of the in-degree.")
            every[own] = self.own.graph.degree[own] ** power
        else:
            given = checks.as_array(field, weight)
            size = own.stop - own.start
            if given.shape != (size,):
                raise InputError(
                    f"{field} has shape {given.shape}, but its type has {size} nodes: pass one "
                    "number per node of the type."
                )
            every[own] = given
        return every

    def attributes(self, nodes: IntArray, named: Mapping[str, Tensor]) -> dict[Any, Any]:
        """Attributes of a batch, by relation or type: positions among the targets of each type."""
        local = torch.from_numpy(_local(self.types, nodes))
        source, _, target = self.edge_type
        place = {"src_index": source, "dst_pos_index": target, "dst_neg_index": target}
        found: dict[Any, Any] = {self.edge_type: {}, source: {}, target: {}}
        for name, value in named.items():
            is_place = name in place or name == "edge_label_index"
            found[place.get(name, self.edge_type)][name] = local[value] if is_place else value
        return found


def link_pairs(field: str, given: Any, graph: Graph, typed: TypedLinks | None) -> IntArray:
    """Links [2, P] as ids of the graph; with types, from ids within the types of their ends."""
    if typed is not None:
        return typed.pairs(field, given)
    return checks.node_pairs(field, given, graph.num_nodes)


def _local(types: GraphTypes, nodes: IntArray) -> IntArray:
    """Position of each node among those of its type. int64[N] -> int64[N]."""
    local = np.empty(nodes.size, np.int64)
    for place in types.places(nodes):
        local[place] = np.arange(place.size)
    return local


def typed_links(
    graph: Graph, data: Any, edge_label_index: Any, rev_edge_types: Any
) -> tuple[TypedLinks, Any]:
    """The relation of the links and the links, from `edge_label_index` of a `LinkLoader`."""
    given = (edge_label_index, None) if _is_type(edge_label_index) else edge_label_index
    if not isinstance(given, (tuple, list)) or len(given) != 2 or not _is_type(given[0]):
        listed = ", ".join(map(str, graph.types.edge_types)) if graph.types else ""
        raise InputError(
            "edge_label_index must name a relation, because the graph has types: pass "
            f"(edge type, links [2, P]) with one of {listed}."
        )
    links = TypedLinks(graph, given[0], rev_edge_types)
    if given[1] is not None:
        return links, given[1]
    if is_store_pair(data):
        return links, stored_pairs(data[1], links.edge_type)
    return links, data[links.edge_type].edge_index


def _is_type(value: Any) -> bool:
    """Whether this names a relation."""
    are_names = isinstance(value, tuple) and all(isinstance(part, str) for part in value)
    return isinstance(value, str) or are_names
