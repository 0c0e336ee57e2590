"""Partitions: every node in one of many parts of nearly equal size, with few edges between them."""

from __future__ import annotations

import math
from importlib.util import find_spec

import numpy as np
import scipy.sparse

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError, ResourceError
from bliss.graph import Graph
from bliss.kernels import subgraphs
from bliss.rng import derive_key, hashes

PARTITIONERS = ("metis", "propagation")
SLACK = 1.1
"""How much larger than the mean a part of `propagation` may be."""
_ROUNDS = 8  # of moves, at each level and at the end
_LEVELS = 30  # far more than merging by halves needs
_REFINE = -1  # the counter that sets the last rounds apart from those of levels


def choose_partitioner(name: str | None) -> str:
    """The partitioner that was asked for; by default METIS where it is installed."""
    has_metis = find_spec("pymetis") is not None
    if name is None:
        return "metis" if has_metis else "propagation"
    checks.choice("partitioner", name, PARTITIONERS)
    if name == "metis" and not has_metis:
        raise ResourceError(
            "partitioner='metis' needs the package pymetis: install bliss-gnn[metis], or choose "
            "'propagation', which needs nothing."
        )
    return name


def check_parts(parts: int, graph: Graph) -> int:
    """A number of parts that the graph has nodes for."""
    parts = checks.whole("parts", parts, least=1)
    if parts > graph.num_nodes:
        raise InputError(
            f"parts={parts} is more than the graph's {graph.num_nodes} nodes: choose fewer."
        )
    return parts


def partition(graph: Graph, parts: int, partitioner: str, seed: int = 0) -> IntArray:
    """The part of each node, from 0 to parts - 1; edges count in both directions. int64[V].

    metis        multilevel k-way partitioning by the METIS library
    propagation  ours: size-constrained label propagation, level by level. Nodes join the cluster
                 they are linked to most while it has room; clusters become nodes, and so on. The
                 order in which the levels nest is cut into equal slices, whose nodes then move
                 to the slice they are linked to most, up to `SLACK` times the mean size.
                 O(V + E) a level
    """
    parts = check_parts(parts, graph)
    links = undirected(graph)
    if parts == 1 or partitioner == "propagation" or links.nnz == 0:
        return _propagation(links, parts, seed)
    return _metis(links, parts, seed)


def undirected(graph: Graph) -> scipy.sparse.csr_array:
    """1 where an edge runs either way, self-loops left out. [V, V]."""
    target = np.repeat(np.arange(graph.num_nodes), graph.degree)
    others = target != graph.indices
    entries = np.ones(int(others.sum())), (target[others], graph.indices[others])
    one_way = scipy.sparse.csr_array(entries, shape=(graph.num_nodes, graph.num_nodes))
    links = scipy.sparse.csr_array(one_way + one_way.T)
    links.data[:] = 1.0
    return links


def edge_cut(graph: Graph, part: IntArray) -> float:
    """The share of edges between parts, self-loops left out."""
    links = undirected(graph).tocoo()
    return float((part[links.row] != part[links.col]).mean()) if links.nnz else 0.0


def _metis(links: scipy.sparse.csr_array, parts: int, seed: int) -> IntArray:
    import pymetis

    options = pymetis.Options(seed=int(derive_key(seed)) >> 33)  # METIS takes 31 bits
    adjacency = pymetis.CSRAdjacency(links.indptr, links.indices)
    _, part = pymetis.part_graph(parts, adjacency=adjacency, options=options)
    return np.asarray(part, np.int64)


def _propagation(links: scipy.sparse.csr_array, parts: int, seed: int) -> IntArray:
    nodes = links.shape[0]
    capacity = math.ceil(SLACK * nodes / parts)
    nested = _nested_clusters(links, parts, capacity, seed)
    part: IntArray = np.empty(nodes, np.int64)
    part[np.lexsort(nested)] = np.arange(nodes) * parts // nodes
    size = np.bincount(part, minlength=parts)
    _move(links, np.ones(nodes, np.int64), part, size, capacity, seed, _REFINE)
    return part


def _nested_clusters(
    links: scipy.sparse.csr_array, parts: int, capacity: int, seed: int
) -> list[IntArray]:
    """The cluster of each node at each level, finest first. Lists of int64[V]."""
    weight: IntArray = np.ones(links.shape[0], np.int64)
    label: IntArray = np.arange(links.shape[0])
    labels = [label]
    for level in range(_LEVELS):
        part: IntArray = np.arange(weight.size)
        _move(links, weight, part, weight.copy(), capacity, seed, level)
        distinct, part = np.unique(part, return_inverse=True)
        label = part[label]
        labels.append(label)
        if distinct.size == weight.size or distinct.size <= parts:
            break
        entries = np.ones(part.size), (np.arange(part.size), part)
        member = scipy.sparse.csr_array(entries, shape=(part.size, distinct.size))
        links = scipy.sparse.csr_array(member.T @ links @ member)
        links.setdiag(0.0)
        links.eliminate_zeros()
        weight = np.bincount(part, weight).astype(np.int64)
    return labels


def _move(
    links: scipy.sparse.csr_array,
    weight: IntArray,
    part: IntArray,
    size: IntArray,
    capacity: int,
    seed: int,
    level: int,
) -> None:
    """Rounds of moves, each in another order, until nobody moves; changes part and size."""
    for number in range(_ROUNDS):
        key = derive_key(seed, level, number)
        order = np.argsort(hashes(key, np.arange(part.size)), kind="stable")
        if not subgraphs.join_neighbours(
            links.indptr, links.indices, links.data, weight, order, part, size, capacity
        ):
            return
