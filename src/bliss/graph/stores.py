"""Graphs from a pair of PyG's FeatureStore and GraphStore."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph.csc import index_type


def is_store_pair(source: Any) -> bool:
    """Whether this is a pair of a FeatureStore and a GraphStore, by their methods."""
    return (
        isinstance(source, (tuple, list))
        and len(source) == 2
        and hasattr(source[0], "multi_get_tensor")
        and hasattr(source[1], "get_all_edge_attrs")
    )


def is_typed_store(graph_store: Any) -> bool:
    """Whether the edges of a GraphStore have types."""
    attrs = graph_store.get_all_edge_attrs()
    if not attrs:
        raise InputError("the graph store has no edges: put an edge_index into it.")
    return all(attr.edge_type is not None for attr in attrs)


def store_sizes(feature_store: Any, graph_store: Any) -> dict[Any, int]:
    """Number of nodes of each type, {None: V} without types.

    From the sizes of edge_index, from rows of features, or otherwise one more than the largest id.
    """
    sizes: dict[Any, int] = {}
    for attr in graph_store.get_all_edge_attrs():
        ends = (None, None) if attr.edge_type is None else attr.edge_type[::2]
        for place, name in enumerate(ends):
            sizes.setdefault(name, 0)
            if attr.size is not None and attr.size[place] is not None:
                sizes[name] = max(sizes[name], int(attr.size[place]))
    for attr in feature_store.get_all_tensor_attrs():
        if is_of_edges(attr.group_name):
            continue
        whole = copy.copy(attr)
        whole.index = None
        rows = feature_store.get_tensor_size(whole)
        if rows is not None and not sizes.get(attr.group_name):
            sizes[attr.group_name] = int(rows[0])
    return sizes


def is_of_edges(group: Any) -> bool:
    """Whether a group of a FeatureStore holds attributes of edges."""
    return isinstance(group, tuple)


def store_edges(graph_store: Any) -> dict[Any, tuple[IntArray, IntArray, IntArray]]:
    """Sources, pointers of targets and edge ids of each relation; {None: ...} without types."""
    rows, pointers, orders = graph_store.csc()
    if not isinstance(rows, dict):
        rows, pointers, orders = {None: rows}, {None: pointers}, {None: orders}
    edges = {}
    for edge_type, row in rows.items():
        source = checks.as_array("row of the graph store", row)
        pointer = checks.as_array("colptr of the graph store", pointers[edge_type])
        ids = np.arange(source.size)
        if orders[edge_type] is not None:
            ids = checks.as_array("perm of the graph store", orders[edge_type])
        own = _edge_ids(graph_store, edge_type)
        edges[edge_type] = source, pointer, ids if own is None else own[ids]
    return edges


def stored_pairs(graph_store: Any, edge_type: Any = None) -> IntArray:
    """All edges of a relation, or of a graph without types, sources over targets. int64[2, E]."""
    row, col, _ = graph_store.coo(None if edge_type is None else [edge_type])
    ends = (row, col) if edge_type is None else (row[edge_type], col[edge_type])
    return np.stack([checks.as_array("edges of the graph store", end) for end in ends])


def _edge_ids(graph_store: Any, edge_type: Any) -> IntArray | None:
    """Ids of the edges as stored, if the store has ids of its own, as PyG's LocalGraphStore."""
    if not hasattr(graph_store, "get_edge_id"):
        return None
    for attr in graph_store.get_all_edge_attrs():
        found = graph_store.get_edge_id(attr) if attr.edge_type == edge_type else None
        if found is not None:
            return checks.as_array("edge ids of the graph store", found).astype(np.int64)
    return None


def store_fields(feature_store: Any, graph_store: Any) -> tuple[Any, ...]:
    """indptr, indices and edge ids of a graph without types."""
    source, pointer, ids = store_edges(graph_store)[None]
    nodes = store_sizes(feature_store, graph_store).get(None) or 0
    nodes = max(nodes, pointer.size - 1, int(source.max(initial=-1)) + 1)
    indptr = np.full(nodes + 1, pointer[-1], np.int64)
    indptr[: pointer.size] = pointer
    return indptr, source.astype(index_type(nodes)), ids.astype(index_type(ids.size))


def store_relations(feature_store: Any, graph_store: Any) -> tuple[Any, Any, Any]:
    """edge_index and edge ids of each relation, and numbers of nodes of each type."""
    edges = store_edges(graph_store)
    sizes = store_sizes(feature_store, graph_store)
    index, ids = {}, {}
    for edge_type, (source, pointer, own) in edges.items():
        target = np.repeat(np.arange(pointer.size - 1), np.diff(pointer))
        index[edge_type], ids[edge_type] = np.stack([source.astype(np.int64), target]), own
        for name, nodes in ((edge_type[0], source), (edge_type[2], target)):
            sizes[name] = max(sizes.get(name) or 0, int(nodes.max(initial=-1)) + 1)
    return index, ids, sizes


def store_weight(feature_store: Any, group: Any) -> IntArray:
    """Weights of the edges of a relation, in the order of their ids."""
    for attr in feature_store.get_all_tensor_attrs():
        if attr.group_name == group and attr.attr_name == "edge_weight":
            whole = copy.copy(attr)
            whole.index = None
            return checks.as_array("edge_weight", feature_store.get_tensor(whole))
    name = "the edges" if group == (None, None) else f"relation {group}"
    raise InputError(
        f"the feature store has no edge_weight for {name}: put one in, or choose norm 'mean'."
    )


def edge_ids_of(column: IntArray, types: Any, ids: dict[Any, IntArray]) -> IntArray:
    """Ids of edges in the store from their columns, relation by relation. int[E]."""
    relation = np.repeat(types.group_relation, np.diff(types.group_start))
    found = np.empty_like(column)
    for number, edge_type in enumerate(types.edge_types):
        own = relation == number
        found[own] = ids[edge_type][column[own]]
    return found


def refuse_store_options(norm: str, options: dict[str, Any]) -> None:
    """Refuse what would change the edges of a store."""
    if norm == "gcn":
        raise InputError(
            'norm="gcn" needs self-loops, which are not added to the edges of a store: choose '
            'norm="mean", or "weights" with coefficients of your own.'
        )
    if changed := [name for name, value in options.items() if value not in (None, "keep")]:
        raise InputError(
            f"{', '.join(changed)} cannot be used with stores, whose edges are taken as they are: "
            "leave it out."
        )
