"""`Graph`: directed edges compressed by target, with aggregation coefficients. Immutable."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse

from bliss import checks
from bliss.arrays import NOTHING, Array, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph.conversion import (
    Pairs,
    adjacency_of,
    edge_attributes,
    edges_of,
    hetero_arguments,
    is_edge_index,
    library_of,
    matrix_pairs,
    pairs_of,
)
from bliss.graph.csc import (
    WEIGHTED,
    check_arrays,
    check_edge_id,
    check_pointers,
    check_weight,
    compress,
    self_loops_of,
    source_factors,
)
from bliss.graph.graph_types import EdgeType, GraphTypes, compress_relations, refuse_gcn
from bliss.graph.rows import Rows
from bliss.kernels import links

if TYPE_CHECKING:
    from torch import Tensor

Norm = Literal["mean", "gcn", "weights", "weighted-mean"]
SelfLoops = Literal["add", "keep", "remove"]
Duplicates = Literal["keep", "coalesce"]

NORMS = ("mean", "gcn", *WEIGHTED)
_COUNTED = 10**8  # edges up to which `repr` counts self-loops


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A directed graph in compressed sparse column form, with aggregation coefficients.

    The in-edges of node i are the positions indptr[i] to indptr[i + 1] of `indices`; a position is
    the edge's id. Rows are sorted by source, unless CSC arrays were used without a copy. The
    coefficient alpha_ij of edge j -> i is

    * ``norm="mean"``: 1 / |N_i|
    * ``norm="gcn"``: 1 / sqrt(|N_i| |N_j|), with in-degrees
    * ``norm="weights"``: w_ij, the given weight
    * ``norm="weighted-mean"``: w_ij / sum_k w_ik, over the in-edges of i; 0 if the sum is 0

    Build one with `Graph.of`, or with the constructor for your format: `from_data`,
    `from_edge_index`, `from_scipy`, `from_csc`. `bliss.data.open_graph` opens a saved one.

    Examples
    --------
    >>> graph = Graph.from_edge_index([[0, 1, 2], [1, 2, 2]], num_nodes=4)
    >>> graph
    Graph(nodes=4, edges=2, self_loops=4, norm='mean')
    >>> graph.indices[graph.indptr[2] : graph.indptr[3]]  # node 1 and one self-loop
    array([1, 2], dtype=int32)
    """

    indptr: IntArray  # int64[V + 1]
    indices: IntArray  # int32[E] or int64[E], sources
    norm: Norm = "mean"
    weight: FloatArray = field(default_factory=lambda: NOTHING)  # float32[E], or empty: no weights
    edge_id: IntArray | None = None  # int32[E] or int64[E], column of the given edge_index
    types: GraphTypes | None = None  # of a heterogeneous graph

    def __post_init__(self) -> None:
        checks.choice("norm", self.norm, NORMS)
        indptr, indices = check_arrays(self.indptr, self.indices)
        is_empty = np.size(self.weight) == 0 and (indices.size > 0 or self.norm not in WEIGHTED)
        given = None if is_empty else self.weight
        weight = check_weight(self.norm, given, indices.size)
        self._freeze(indptr=indptr, indices=indices, weight=weight)
        if self.edge_id is not None:
            self._freeze(edge_id=check_edge_id(self.edge_id, indices.size))
        if self.types is not None:
            self.types.check(self.num_nodes, self.num_edges)

    @classmethod
    def trusted(
        cls,
        indptr: IntArray,
        indices: IntArray,
        norm: Norm,
        weight: FloatArray,
        types: GraphTypes | None = None,
    ) -> Graph:
        """A graph from arrays that were checked before; only the pointers are checked again.

        Kernels do not check indices: with wrong ones they would read and write outside the arrays.
        """
        has_weights = norm in WEIGHTED
        if (
            indices.dtype not in (np.int32, np.int64)
            or indices.ndim != 1
            or (has_weights and (weight.dtype != np.float32 or weight.shape != indices.shape))
        ):
            return cls(indptr, indices, norm, weight, types=types)
        pointers = check_pointers(indptr, indices.size)
        if types is not None:
            types.check(pointers.size - 1, indices.size)
        return cls._unchecked(pointers, indices, norm, weight, types=types)

    @classmethod
    def _unchecked(
        cls, indptr: IntArray, indices: IntArray, norm: Norm, weight: FloatArray, **others: Any
    ) -> Graph:
        graph = object.__new__(cls)
        graph.__dict__.update({"edge_id": None, "types": None, "norm": norm} | others)
        graph._freeze(indptr=indptr, indices=indices, weight=weight)
        return graph

    def __deepcopy__(self, memo: Any) -> Graph:
        return self  # immutable, and as large as the data

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"types": None} | state)
        arrays = {"indptr": self.indptr, "indices": self.indices, "weight": self.weight}
        self._freeze(**arrays, **({} if self.edge_id is None else {"edge_id": self.edge_id}))

    def _freeze(self, **arrays: Array) -> None:
        for name, array in arrays.items():
            view = array.view()  # the caller's array stays writeable
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __repr__(self) -> str:
        counts = f"edges={self.num_edges} with self-loops"
        if "num_self_loops" in self.__dict__ or self.num_edges <= _COUNTED:
            loops = self.num_self_loops
            counts = f"edges={self.num_edges - loops}, self_loops={loops}"
        types = "" if self.types is None else f", relations={len(self.types.edge_types)}"
        return f"Graph(nodes={self.num_nodes}, {counts}{types}, norm={self.norm!r})"

    @property
    def num_nodes(self) -> int:
        """|V|."""
        return self.indptr.size - 1

    @property
    def num_edges(self) -> int:
        """|E|, including self-loops."""
        return self.indices.size

    @cached_property
    def degree(self) -> IntArray:
        """|N_i|, the number of in-edges of each node. int64[V]."""
        return np.diff(self.indptr)

    def degree_of(self, nodes: IntArray) -> IntArray:
        """|N_i| of some nodes. Does not build `degree`, which takes 8 bytes per node. int64[N]."""
        degree: IntArray = self.indptr[nodes + 1] - self.indptr[nodes]
        return degree

    @property
    def group_ptr(self) -> IntArray:
        """Edges of each group: a node's in-edges, or those under one relation. int64[Q + 1]."""
        return self.indptr if self.types is None else self.types.group_start

    def relation_of(self, edges: IntArray) -> IntArray:
        """Relation of each edge of a graph with types: its position in types.edge_types. int64."""
        if self.types is None:
            return np.zeros(np.shape(edges), np.int64)
        group = np.searchsorted(self.types.group_start, edges, side="right") - 1
        return self.types.group_relation[group].astype(np.int64)

    @property
    def edge_index(self) -> Tensor:
        """All edges in PyG's form, sources over targets, in the order of edge ids. int64[2, E].

        `Block.propagate(conv, x)` estimates `conv(x, graph.edge_index)`. The self-loops of the
        graph are included. The tensor is built on each call.
        """
        import torch

        target = np.repeat(np.arange(self.num_nodes), self.degree)
        return torch.from_numpy(np.stack([self.indices.astype(np.int64), target]))

    @property
    def edge_weight(self) -> Tensor:
        """alpha_ij of all edges, in the order of `edge_index`. float32[E], built on each call."""
        import torch

        nodes, edges = np.arange(self.num_nodes), np.arange(self.num_edges)
        alpha = self.rows(nodes).coefficients(nodes, self.group_ptr, self.indices, edges)
        return torch.from_numpy(alpha)

    @cached_property
    def has_self_loops(self) -> bool:
        """Whether every node has a self-loop. The first call may take a pass over the edges."""
        return all(
            np.unique(loop).size == number
            for number, loop in self_loops_of(self.indptr, self.indices)
        )

    @cached_property
    def num_self_loops(self) -> int:
        """Number of self-loops. The first call may take a pass over the edges."""
        return sum(loop.size for _, loop in self_loops_of(self.indptr, self.indices))

    def note_self_loops(self) -> None:
        """Note that each node has one self-loop, which is then known without a pass."""
        self.__dict__.update(has_self_loops=True, num_self_loops=self.num_nodes)

    @cached_property
    def has_sorted_rows(self) -> bool:
        """Whether in-edges are sorted by source. The first call may take a pass over the edges."""
        return bool(links.first_unsorted(self.indptr, self.indices) < 0)

    def edges_between(self, source: IntArray, target: IntArray) -> tuple[IntArray, IntArray]:
        """Ids of the edges source_n -> target_n, parallel ones included, by binary search.

        source, target  int64[N]
        returns         position n of each edge int64[H], not decreasing, and its id int64[H]
        """
        edges = self.indptr, self.indices, self.has_sorted_rows
        pair, edge = links.edges_of_pairs(*edges, source, target)
        return pair, edge

    def source_factor(self, power: float) -> FloatArray:
        """Source factor of alpha_ij to a power, computed once. float32[V], or empty if it is 1."""
        if self.norm != "gcn" or power == 0.0:
            return NOTHING.astype(np.float32)
        factors: dict[float, FloatArray] = self.__dict__.setdefault("_source_factors", {})
        if power not in factors:
            factors[power] = source_factors(self.indptr, power)
        return factors[power]

    def rows(self, dst: IntArray, without: Any = None) -> Rows:
        """The edges that targets may see.

        Parameters
        ----------
        dst
            Distinct targets, int64[D].
        without
            Edge ids [H] that no target may see, or `HiddenEdges`; degrees and coefficients are
            those of the graph without them.
        """
        return Rows.of(self, dst, without)

    def with_norm(self, norm: Norm) -> Graph:
        """The same edges, and the same weights if there are any, with other coefficients."""
        checks.choice("norm", norm, NORMS)
        if norm in WEIGHTED and self.norm not in WEIGHTED:
            raise InputError(
                f"norm={norm!r} needs weights, and this graph has none: build it with weight=...."
            )
        if norm == self.norm:
            return self
        if self.types is not None:
            refuse_gcn(norm)
        weight = self.weight if norm in WEIGHTED else NOTHING
        others = {"edge_id": self.edge_id, "types": self.types}
        graph = self._unchecked(self.indptr, self.indices, norm, weight, **others)
        kept = {"degree", "has_self_loops", "num_self_loops", "has_sorted_rows"}
        for name in kept & self.__dict__.keys():  # do not depend on norm
            graph.__dict__[name] = self.__dict__[name]
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
            or a tensor or array edge_index [2, E].
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
                f"num_nodes={num_nodes} was given with a {type(source).__name__}, which knows its "
                "number of nodes: leave it out."
            )
        if isinstance(source, Graph):
            if options:
                raise InputError(
                    f"{', '.join(options)} cannot be changed, because the graph is already built: "
                    "pass it to Graph.of(data, ...) when you build the graph."
                )
            if norm is not None and norm != source.norm:
                raise InputError(
                    f"norm={norm!r} differs from the graph's norm={source.norm!r}: leave norm out, "
                    f"or pass graph.with_norm({norm!r})."
                )
            return source
        if isinstance(source, (str, PathLike)):
            raise InputError(
                f"the path {str(source)!r} cannot be converted to a graph: open a saved graph "
                "with bliss.data.open_graph."
            )
        kind = library_of(source)
        if kind == "torch_geometric.HeteroData":
            return cls.from_relations(**hetero_arguments(source, norm or "mean", options))
        options.setdefault("self_loops", _loops_of(norm))
        if kind == "torch_geometric.Data":
            if norm is None and getattr(source, "edge_weight", None) is not None:
                warnings.warn(
                    "data.edge_weight is not used, because the coefficients are 1 / degree: pass "
                    'norm="weighted-mean" or norm="weights" to use it, or norm="mean" to silence '
                    "this warning.",
                    stacklevel=2,
                )
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
    def from_data(cls, data: Any, norm: Norm = "mean", **options: Any) -> Graph:
        """Build from a PyG `Data`: its edge_index, or adj_t, in which [i, j] is the edge j -> i.

        If the norm takes weights, they are edge_weight, or the values of adj_t. Options are those
        of `from_edge_index`. By default, self-loops are kept as they are, except with norm="gcn";
        edge ids are kept if the data has attributes of edges other than edge_weight.
        """
        options.setdefault("self_loops", _loops_of(norm))
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
            data.edge_index, num_nodes=data.num_nodes, weight=weight, norm=norm, **options
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
        """
        checks.choice("norm", norm, NORMS)
        pairs, num_nodes = pairs_of(edge_index, num_nodes)
        choices = norm, self_loops, duplicates, edge_ids
        indptr, indices, value, column = compress(pairs, num_nodes, weight, *choices)
        graph = cls(indptr, indices, norm, value, column if edge_ids else None)
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
    ) -> Graph:
        """Build a graph with types of nodes and edges, in one id space; see `GraphTypes`.

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
        """
        checks.choice("norm", norm, NORMS)
        refuse_gcn(norm)
        return cls(*compress_relations(edge_index, num_nodes, weight, norm, edge_ids))

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
            return cls(indptr, indices, norm, NOTHING if weight is None else weight)
        pointers, sources = check_arrays(indptr, indices)
        targets = np.repeat(np.arange(pointers.size - 1), np.diff(pointers))
        pairs = np.stack([sources.astype(np.int64), targets])
        return cls.from_edge_index(pairs, pointers.size - 1, weight, norm, self_loops, duplicates)


def _loops_of(norm: Norm | None) -> SelfLoops:
    """Self-loops of a converted graph: as they are; one per node for the coefficients of GCN."""
    return "add" if norm == "gcn" else "keep"
