"""`GraphTypes`: types of nodes and edges, in one id space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from bliss import checks
from bliss.arrays import NO_IDS, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph.csc import check_weight, index_type
from bliss.graph.cutoff import check_times
from bliss.kernels.frontier import group_by_target
from bliss.kernels.links import places_by_range

EdgeType: TypeAlias = tuple[str, str, str]
"""Type of the sources, name of the relation, type of the targets."""


@dataclass(frozen=True, eq=False, repr=False)
class GraphTypes:
    """Types of the nodes and edges of a graph.

    The nodes of a type are a range of ids, in the order of PyG's `HeteroData.to_homogeneous`. The
    in-edges of a node are sorted by relation, the number of their type in `edge_types`. A group is
    the neighbourhood N_i^r of a node under one relation, with at least one edge: a range of edges.
    """

    node_types: tuple[str, ...]  # [T]
    node_ptr: IntArray  # int64[T + 1] nodes of type t: node_ptr[t] to node_ptr[t + 1]
    edge_types: tuple[EdgeType, ...]  # [R]
    group_ptr: IntArray  # int64[V + 1] groups of node i: group_ptr[i] to group_ptr[i + 1]
    group_start: IntArray  # int64[Q + 1] edges of group q: group_start[q] to group_start[q + 1]
    group_relation: IntArray  # int32[Q]

    def __post_init__(self) -> None:
        nodes, groups = self.group_ptr.size - 1, self.group_relation.size
        fits = (
            len(self.node_ptr) == len(self.node_types) + 1
            and self.node_ptr[-1] == nodes
            and self.group_start.size == groups + 1
            and self.group_ptr[-1] == groups
        )
        if not fits:
            raise InputError(
                f"types of {self.node_ptr[-1]} nodes and {groups} groups do not fit pointers of "
                f"{nodes} nodes and {self.group_ptr[-1]} groups: build them with "
                "Graph.from_relations."
            )

    def __repr__(self) -> str:
        return f"GraphTypes({self.num_nodes}, relations={len(self.edge_types)})"

    @property
    def num_nodes(self) -> dict[str, int]:
        """Number of nodes of each type."""
        return dict(zip(self.node_types, np.diff(self.node_ptr).tolist(), strict=True))

    @property
    def arrays(self) -> tuple[IntArray, IntArray, IntArray]:
        """group_ptr, group_start and group_relation."""
        return self.group_ptr, self.group_start, self.group_relation

    def check(self, num_nodes: int, num_edges: int) -> None:
        """Raise an error unless these are the types of a graph of this size."""
        if self.group_ptr.size != num_nodes + 1 or self.group_start[-1] != num_edges:
            raise InputError(
                f"types are those of {self.group_ptr.size - 1} nodes and {self.group_start[-1]} "
                f"edges, but the graph has {num_nodes} and {num_edges}: pass its own."
            )

    @cached_property
    def ends(self) -> IntArray:
        """Number of the source type over that of the target type, by relation. int64[2, R]."""
        number = {name: place for place, name in enumerate(self.node_types)}
        pairs = [(number[source], number[target]) for source, _, target in self.edge_types]
        return np.array(pairs, np.int64).reshape(-1, 2).T

    def node_type(self, name: Any) -> int:
        """Number of a type of nodes."""
        if name not in self.node_types:
            raise InputError(
                f"{name!r} is not a type of nodes: choose one of {', '.join(self.node_types)}."
            )
        return self.node_types.index(name)

    def relation(self, edge_type: Any) -> int:
        """Number of a type of edges, given in full or by the name of its relation if it is unique.

        Two names are the types of sources and targets, as in PyG. Several names may also be one
        text, separated by commas.
        """
        given = ",".join(edge_type) if isinstance(edge_type, (tuple, list)) else edge_type
        found = [
            number
            for number, (source, name, target) in enumerate(self.edge_types)
            if given in (f"{source},{name},{target}", f"{source},{target}", name)
        ]
        if len(found) != 1:
            listed = ", ".join(map(str, self.edge_types))
            raise InputError(f"{edge_type!r} is not a type of edges: choose one of {listed}.")
        return found[0]

    def range_of(self, name: Any) -> slice:
        """Ids of the nodes of a type."""
        number = self.node_type(name)
        return slice(int(self.node_ptr[number]), int(self.node_ptr[number + 1]))

    def type_of(self, nodes: IntArray) -> IntArray:
        """Number of the type of each node. int64[N]."""
        return np.searchsorted(self.node_ptr, nodes, side="right") - 1

    def places(self, nodes: IntArray) -> list[IntArray]:
        """Positions of the nodes of each type, in order. int64[N] -> T arrays."""
        return self.split(nodes)[0]

    def split(self, nodes: IntArray) -> tuple[list[IntArray], list[IntArray]]:
        """`places` of nodes, and ids within each type. int64[N] -> T arrays, T arrays."""
        pointer, order, local = places_by_range(nodes, self.node_ptr)
        parts = [slice(pointer[t], pointer[t + 1]) for t in range(len(self.node_types))]
        return [order[part] for part in parts], [local[part] for part in parts]

    def padded(self, values: Mapping[str, Any]) -> FloatArray:
        """Rows of all nodes, padded by zeros to one width. {type: [n_t, F_t]} -> float32[V, F].

        A type that is left out has rows of zeros.
        """
        width = max((value.shape[1] for value in values.values()), default=1)
        rows = np.zeros((int(self.node_ptr[-1]), width), np.float32)
        for name, value in values.items():
            rows[self.range_of(name), : value.shape[1]] = value
        return rows


def sort_relations(
    source: IntArray, target: IntArray, relation: IntArray, time: IntArray, num_nodes: int
) -> tuple[IntArray, IntArray]:
    """Sort edges by (target, relation, source), or by (target, relation, time, source), stably.

    source, target, relation  int[E]
    time                      int64[E], or empty
    returns                   indptr int64[V + 1], order int64[E] (positions in the input)
    """
    size = max(num_nodes, int(relation.max(initial=0)) + 1)
    by_source: IntArray
    if time.size:
        by_source = np.lexsort((source, time))
    else:
        _, by_source = group_by_target(relation, source, size)
    indptr, order = group_by_target(relation[by_source], target[by_source], size)
    return indptr[: num_nodes + 1], by_source[order]


def types_of(
    sizes: Mapping[str, int],
    edge_types: Sequence[EdgeType],
    indptr: IntArray,
    relation: IntArray,
) -> GraphTypes:
    """Types of a graph whose edges are sorted by (target, relation).

    sizes     number of nodes of each type
    indptr    int64[V + 1]
    relation  int[E]  relation of each edge
    """
    is_first = np.ones(relation.size, bool)
    is_first[1:] = relation[1:] != relation[:-1]
    is_first[indptr[:-1][np.diff(indptr) > 0]] = True
    start = np.append(np.flatnonzero(is_first), relation.size)
    return GraphTypes(
        tuple(sizes),
        np.concatenate([[0], np.cumsum(list(sizes.values()), dtype=np.int64)]),
        tuple(edge_types),
        np.searchsorted(start[:-1], indptr),
        start,
        relation[start[:-1]].astype(np.int32),
    )


def compress_relations(
    edge_index: Mapping[EdgeType, Any],
    num_nodes: Mapping[str, int],
    weight: Mapping[EdgeType, Any] | None,
    norm: Any,
    edge_ids: bool,
    time: Mapping[EdgeType, Any] | None = None,
) -> tuple[IntArray, IntArray, Any, FloatArray, IntArray | None, IntArray, GraphTypes]:
    """Fields of a `Graph` from the arguments of `Graph.from_relations`."""
    refuse_gcn(norm)
    given = Relations(edge_index, num_nodes)
    size = sum(given.sizes.values())
    source, target, relation, column = given.concatenated(index_type(size))
    values = None if weight is None else given.values("weight", weight)
    value = check_weight(norm, values, source.size)
    times = NO_IDS
    if time is not None:
        times = check_times("time", given.values("time", time), source.size, "edge")
    indptr, order = sort_relations(source, target, relation, times, size)
    ids: IntArray | None = column[order].astype(index_type(column.size)) if edge_ids else None
    types = types_of(given.sizes, list(given.edges), indptr, relation[order])
    value = value[order] if value.size else value
    times = times[order] if times.size else times
    return indptr, source[order], norm, value, ids, times, types


def refuse_gcn(norm: str) -> None:
    """Refuse norm="gcn" for a heterogeneous graph."""
    if norm == "gcn":
        raise InputError(
            'norm="gcn" divides by in-degrees of sources, which under a relation between two types '
            'have none: choose norm="mean", or "weights" with coefficients of your own.'
        )


class Relations:
    """Edges of several types, as given, with checks that name the type."""

    def __init__(self, edges: Mapping[Any, Any], num_nodes: Mapping[str, Any]) -> None:
        self.sizes: dict[str, int] = {}
        for name, size in num_nodes.items():
            if not size:
                raise InputError(
                    f"type {name!r} has no nodes: set data[{name!r}].num_nodes, or remove the type."
                )
            self.sizes[name] = checks.whole(f"num_nodes of {name!r}", size)
        if not edges:
            raise InputError("there are no relations: pass the edges of at least one.")
        self.edges: dict[EdgeType, Any] = {}
        for key, pairs in edges.items():
            is_type = isinstance(key, tuple) and len(key) == 3
            unknown = [t for t in (key[0], key[2]) if t not in self.sizes] if is_type else [key]
            if unknown:
                raise InputError(
                    f"relation {key!r} is between unknown types, {unknown[0]!r} is none of "
                    f"{', '.join(self.sizes)}: use (source type, name, target type), or give the "
                    "type its number of nodes."
                )
            self.edges[key] = pairs

    def concatenated(self, kind: Any) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Sources and targets in one id space, relations, and columns. int[E] each."""
        first = dict(zip(self.sizes, np.cumsum([0, *self.sizes.values()]).tolist(), strict=False))
        ends: list[list[IntArray]] = [[], []]
        for edge_type, given in self.edges.items():
            pairs = checks.as_array("edge_index", given)
            if pairs.ndim != 2 or pairs.shape[0] != 2:
                raise InputError(
                    f"edge_index of {edge_type} has shape {pairs.shape}, but must be [2, E], "
                    "sources over targets: transpose it if it is [E, 2]."
                )
            for side, name in ((0, edge_type[0]), (1, edge_type[2])):
                field = f"edge_index of {edge_type}"
                ids = checks.node_ids(field, pairs[side], self.sizes[name])
                ends[side].append(ids.astype(kind) + kind(first[name]))
        number = [part.size for part in ends[0]]
        relation = np.repeat(np.arange(len(number), dtype=np.int32), number)
        column = np.concatenate([np.arange(size) for size in number])
        return np.concatenate(ends[0]), np.concatenate(ends[1]), relation, column

    def values(self, name: str, given: Mapping[Any, Any]) -> Any:
        """Values of the edges of all relations, concatenated; each relation must have some."""
        missing = [key for key in self.edges if given.get(key) is None]
        if missing:
            raise InputError(
                f"{name} has no entry for relation {missing[0]}, but every relation needs one "
                "number per edge: add it, or leave the others out."
            )
        return np.concatenate([checks.as_array(name, given[key]) for key in self.edges])
