"""Constructors of `Graph`, from the objects of other libraries."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse

from bliss import checks
from bliss.arrays import NO_IDS, NOTHING
from bliss.errors import InputError
from bliss.graph.conversion import (
    Pairs,
    adjacency_of,
    check_source,
    check_unchanged,
    edge_attributes,
    edges_of,
    hetero_arguments,
    is_edge_index,
    library_of,
    matrix_pairs,
    pairs_of,
)
from bliss.graph.csc import WEIGHTED, check_arrays, check_weight, compress
from bliss.graph.cutoff import check_times, times_of
from bliss.graph.graph_types import EdgeType, compress_relations
from bliss.graph.stores import (
    edge_ids_of,
    is_of_edges,
    is_store_pair,
    is_typed_store,
    refuse_store_options,
    store_fields,
    store_relations,
    store_weight,
)

if TYPE_CHECKING:
    from bliss.graph.graph import Graph

Norm = Literal["mean", "gcn", "weights", "weighted-mean"]
SelfLoops = Literal["add", "keep", "remove"]
Duplicates = Literal["keep", "coalesce"]

NORMS = ("mean", "gcn", *WEIGHTED)


class GraphConstructors:
    """The constructors of `Graph`."""

    @classmethod
    def _of_arrays(cls, *fields: Any) -> Graph:
        """A graph of these fields."""
        make: Any = cls
        graph: Graph = make(*fields)
        return graph

    @classmethod
    def of(
        cls,
        source: Any,
        norm: Norm | None = None,
        num_nodes: int | None = None,
        **options: Any,
    ) -> Graph:
        """Convert a graph, matrix or edge_index of another library, with its edges as they are.

        Self-loops are neither added nor removed, unless norm="gcn", whose coefficients are those of
        a graph with one self-loop per node, as in `GCNConv`.

        Parameters
        ----------
        source
            A `Graph`; a PyG `Data`, `HeteroData` or `EdgeIndex`; a networkx graph; a SciPy or torch
            sparse matrix (COO, CSR, CSC) or a `SparseTensor`, in which [j, i] is the edge j -> i;
            a tensor or array edge_index [2, E]; or a pair of PyG's FeatureStore and GraphStore.
        norm
            Aggregation coefficients. Default: those of a graph, otherwise "mean". With
            "weighted-mean" and "weights", weights are data.edge_weight, the values of a matrix or
            the edge attribute "weight" of networkx.
        num_nodes
            |V| of an edge_index; by default one more than the largest id.
        options
            Options of `from_edge_index`, such as self_loops and edge_ids. By default, self_loops is
            "keep", and "add" with norm="gcn".
        """
        if num_nodes is not None and not is_edge_index(source):
            raise InputError(
                f"num_nodes={num_nodes} was given with a {type(source).__name__}, which defines "
                "its number of nodes: leave it out."
            )
        if isinstance(source, GraphConstructors):
            graph: Graph = source  # type: ignore[assignment]
            check_unchanged(graph.norm, norm, options)
            return graph
        if is_store_pair(source):
            return cls.from_stores(source[0], source[1], norm=norm or "mean", **options)
        kind = library_of(source)
        check_source(source, kind, options)
        if norm is None and _has_weights(source, kind):
            warnings.warn(
                "data.edge_weight is not used, because the coefficients are 1 / degree: pass "
                'norm="weighted-mean" or norm="weights" to use it, or norm="mean" to silence '
                "this warning.",
                stacklevel=2,
            )
        if kind == "torch_geometric.HeteroData":
            return cls.from_relations(**hetero_arguments(source, norm or "mean", options))
        options.setdefault("self_loops", _loops_of(norm))
        if kind == "torch_geometric.Data":
            return cls.from_data(source, norm=norm or "mean", **options)
        if kind == "torch_geometric.EdgeIndex":
            return cls.from_edge_index(source, num_nodes, norm=norm or "mean", **options)
        if scipy.sparse.issparse(source):
            return cls.from_scipy(source, norm=norm or "mean", **options)
        pairs = edges_of(source)
        if pairs is None:
            raise InputError(
                f"{type(source).__name__} cannot be converted to a graph: pass a Graph, a PyG Data "
                "or EdgeIndex, a networkx graph, a sparse matrix, or an edge_index [2, E]."
            )
        size = pairs.num_nodes or num_nodes
        return cls._from_pairs(pairs, norm or "mean", num_nodes=size, **options)

    @classmethod
    def _from_pairs(cls, pairs: Pairs, norm: Norm, **options: Any) -> Graph:
        weight = pairs.weight if norm in WEIGHTED else None
        return cls.from_edge_index(pairs.edge_index, weight=weight, norm=norm, **options)

    @classmethod
    def from_data(
        cls, data: Any, norm: Norm = "mean", time_attr: str | None = None, **options: Any
    ) -> Graph:
        """Build from a PyG `Data`: its edge_index, or adj_t, in which [i, j] is the edge j -> i.

        If the norm takes weights, they are edge_weight, or the values of adj_t. Options are those
        of `from_edge_index`. By default, self-loops are kept as they are, except with norm="gcn";
        edge ids are kept if the data has attributes of edges other than edge_weight. `time_attr`
        is the attribute with the times of edges, or of nodes: an edge is as old as its source.
        """
        options.setdefault("self_loops", _loops_of(norm))
        time = None if time_attr is None else times_of(data, time_attr)
        if data.edge_index is None:
            pairs = adjacency_of(data)
            if pairs is None:
                raise InputError(
                    "data.edge_index is None, but it or data.adj_t must hold the edges: set it "
                    "first."
                )
            return cls._from_pairs(pairs, norm, num_nodes=pairs.num_nodes, **options)
        attributes = edge_attributes(data) - {"edge_weight"}
        options.setdefault("edge_ids", bool(attributes))
        weight = getattr(data, "edge_weight", None) if norm in WEIGHTED else None
        return cls.from_edge_index(
            data.edge_index, data.num_nodes, weight=weight, norm=norm, time=time, **options
        )

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Any,
        num_nodes: int | None = None,
        weight: Any = None,
        norm: Norm = "mean",
        self_loops: SelfLoops = "add",
        duplicates: Duplicates = "keep",
        edge_ids: bool = False,
        time: Any = None,
    ) -> Graph:
        """Build from pairs (source, target), in PyG's format.

        Parameters
        ----------
        edge_index
            Integers [2, E]: sources in edge_index[0], targets in edge_index[1].
        num_nodes
            |V|; by default one more than the largest id.
        weight
            One number per edge, for norm="weighted-mean" and norm="weights".
        norm
            Aggregation coefficients: "mean", "gcn", "weighted-mean" or "weights".
        self_loops
            "add": replace existing self-loops by one per node, of weight 1, or with
            norm="weighted-mean" of the mean weight of the node's other in-edges; "keep": leave them
            unchanged; "remove": remove them.
        duplicates
            "keep": keep parallel edges, each as a separate edge; "coalesce": merge them and add
            their weights.
        edge_ids
            Whether to keep, for each edge, its column in edge_index, which `Block.e_id` returns: -1
            for an added self-loop, and the first column for merged edges and replaced self-loops. 4
            bytes per edge, 8 for more than 2^31 edges.
        time
            Whole numbers [E], the time of each edge, by which rows are then sorted. An added
            self-loop is seen at any time.
        """
        checks.choice("norm", norm, NORMS)
        checks.choice("self_loops", self_loops, ("add", "keep", "remove"))
        checks.choice("duplicates", duplicates, ("keep", "coalesce"))
        pairs, num_nodes = pairs_of(edge_index, num_nodes)
        times = NO_IDS if time is None else check_times("time", time, pairs.shape[1], "edge")
        columns = np.arange(pairs.shape[1]) if edge_ids else NO_IDS
        value = check_weight(norm, weight, pairs.shape[1])
        edges = compress(pairs, num_nodes, value, columns, times, norm, self_loops, duplicates)
        ids = edges.column if edge_ids else None
        graph = cls._of_arrays(edges.indptr, edges.indices, norm, edges.weight, ids, edges.time)
        if not graph.has_times:
            graph.__dict__["has_sorted_rows"] = True  # known without a pass over the edges
        if self_loops == "add":
            graph.note_self_loops()
        return graph

    @classmethod
    def from_relations(
        cls,
        edge_index: Mapping[EdgeType, Any],
        num_nodes: Mapping[str, int],
        weight: Mapping[EdgeType, Any] | None = None,
        norm: Norm = "mean",
        edge_ids: bool = False,
        time: Mapping[EdgeType, Any] | None = None,
    ) -> Graph:
        """Build a heterogeneous graph, with all nodes in one id space; see `GraphTypes`.

        Coefficients are those of each relation: 1 / |N_i^r| for "mean", w_ij over the sum of the
        weights of the edges of i under r for "weighted-mean". Self-loops are kept as they are.

        Parameters
        ----------
        edge_index
            Integers [2, E_r] for each (source type, name, target type): ids within these types.
        num_nodes
            Number of nodes of each type.
        weight
            One number per edge of each relation, for norm="weighted-mean" and norm="weights".
        norm
            Aggregation coefficients: "mean", "weighted-mean" or "weights".
        edge_ids
            Whether to keep, for each edge, its column in the edge_index of its relation.
        time
            One time per edge of each relation; its edges are then sorted by time.
        """
        checks.choice("norm", norm, NORMS)
        fields = compress_relations(edge_index, num_nodes, weight, norm, edge_ids, time)
        return cls._of_arrays(*fields)

    @classmethod
    def from_stores(
        cls,
        feature_store: Any,
        graph_store: Any,
        norm: Norm = "mean",
        edge_ids: bool | None = None,
        **options: Any,
    ) -> Graph:
        """Build from PyG's FeatureStore and GraphStore, with types if its edges have some.

        Edges are those of `graph_store.csc()`. The numbers of nodes are sizes of edge_index or
        rows of features. Edge ids are kept if the features store has attributes of edges. Weights
        of norm="weighted-mean" and "weights" are the attribute edge_weight of edges.
        """
        refuse_store_options(norm, options)
        if edge_ids is None:
            attrs = feature_store.get_all_tensor_attrs()
            edge_ids = any(is_of_edges(attr.group_name) for attr in attrs)
        weighs = norm in WEIGHTED
        if not is_typed_store(graph_store):
            indptr, indices, ids = store_fields(feature_store, graph_store)
            weight = store_weight(feature_store, (None, None))[ids] if weighs else NOTHING
            return cls._of_arrays(indptr, indices, norm, weight, ids if edge_ids else None)
        index, ids, sizes = store_relations(feature_store, graph_store)
        given = None
        if weighs:
            given = {one: store_weight(feature_store, one)[ids[one]] for one in index}
        fields = list(compress_relations(index, sizes, given, norm, True))
        column, types = fields[4], fields[6]
        fields[4] = edge_ids_of(column, types, ids) if edge_ids else None
        return cls._of_arrays(*fields)

    @classmethod
    def from_scipy(cls, matrix: Any, norm: Norm = "mean", **options: Any) -> Graph:
        """Build from a square SciPy sparse matrix: entry [j, i] is the weight of edge j -> i.

        Options are those of `from_edge_index`.
        """
        entries = matrix.tocoo()
        pairs = matrix_pairs(matrix.shape, entries.row, entries.col, entries.data)
        return cls._from_pairs(pairs, norm, num_nodes=pairs.num_nodes, **options)

    @classmethod
    def from_csc(
        cls,
        indptr: Any,
        indices: Any,
        weight: Any = None,
        norm: Norm = "mean",
        self_loops: SelfLoops = "add",
        duplicates: Duplicates = "keep",
    ) -> Graph:
        """Build from arrays compressed by target; options as in `from_edge_index`.

        With self_loops="keep" and duplicates="keep" the arrays are checked and used without a copy,
        so they may be memory-mapped.
        """
        checks.choice("norm", norm, NORMS)
        if self_loops == "keep" and duplicates == "keep":
            return cls._of_arrays(indptr, indices, norm, NOTHING if weight is None else weight)
        pointers, sources = check_arrays(indptr, indices)
        num_nodes = pointers.size - 1
        targets = np.repeat(np.arange(num_nodes), np.diff(pointers))
        return cls.from_edge_index(
            np.stack([sources.astype(np.int64), targets]),
            num_nodes=num_nodes,
            weight=weight,
            norm=norm,
            self_loops=self_loops,
            duplicates=duplicates,
        )


def _has_weights(data: Any, kind: str) -> bool:
    """Whether a PyG `Data`, or a relation of a `HeteroData`, has weights of edges."""
    stores = []
    if kind == "torch_geometric.Data":
        stores = [data]
    elif kind == "torch_geometric.HeteroData":
        stores = [data[edge_type] for edge_type in data.edge_types]
    return any(getattr(one, "edge_weight", None) is not None for one in stores)


def _loops_of(norm: Norm | None) -> SelfLoops:
    """Self-loops of a converted graph: as they are; one per node for the coefficients of GCN."""
    return "add" if norm == "gcn" else "keep"
