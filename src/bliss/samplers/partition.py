"""Partitions of a graph into parts of nearly equal size with few edges between them, by METIS."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import scipy.sparse

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError, ResourceError
from bliss.graph import Graph
from bliss.rng import derive_key


def check_metis() -> None:
    """Raise an error if METIS is not installed."""
    if find_spec("pymetis") is None:
        raise ResourceError(
            "sampler 'cluster' needs the package pymetis, which is not installed: install it with "
            "pip install 'bliss-gnn[metis]', or choose another sampler."
        )


def check_parts(parts: int, graph: Graph) -> int:
    """The number of parts, checked to be at most the number of nodes."""
    if parts > graph.num_nodes:
        raise InputError(
            f"parts={parts} exceeds the graph's {graph.num_nodes} nodes: choose fewer parts."
        )
    return checks.whole("parts", parts, least=1)


def partition(graph: Graph, parts: int, seed: int = 0) -> IntArray:
    """Part of each node, from 0 to parts - 1; edges are treated as undirected. int64[V].

    Multilevel k-way partitioning by METIS. A graph without edges is cut into equal slices.
    """
    links = undirected(graph)
    nodes = graph.num_nodes
    if parts == 1 or links.nnz == 0:
        return np.arange(nodes) * parts // max(nodes, 1)
    check_metis()
    import pymetis

    options = pymetis.Options(seed=int(derive_key(seed)) >> 33)  # METIS takes 31 bits
    adjacency = pymetis.CSRAdjacency(links.indptr, links.indices)
    _, part = pymetis.part_graph(parts, adjacency=adjacency, options=options)
    return np.asarray(part, np.int64)


def undirected(graph: Graph) -> scipy.sparse.csr_array:
    """Adjacency matrix of the undirected graph without self-loops, entries 1. [V, V]."""
    source, target = graph.pairs
    others = target != source
    entries = np.ones(int(others.sum())), (target[others], source[others])
    one_way = scipy.sparse.csr_array(entries, shape=(graph.num_nodes, graph.num_nodes))
    links = scipy.sparse.csr_array(one_way + one_way.T)
    links.data[:] = 1.0
    return links


def edge_cut(graph: Graph, part: IntArray) -> float:
    """Share of edges between different parts, self-loops excluded."""
    links = undirected(graph).tocoo()
    return float((part[links.row] != part[links.col]).mean()) if links.nnz else 0.0
