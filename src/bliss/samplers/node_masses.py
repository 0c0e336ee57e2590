"""Masses of all nodes of a graph, for samplers that draw independently of the targets."""

from __future__ import annotations

import numpy as np

from bliss.arrays import FloatArray
from bliss.graph import Graph


def squared_column_norms(graph: Graph) -> FloatArray:
    """Squared norm of each node's column of coefficients, sum_i alpha_ij^2. float64[V]."""
    nodes = np.arange(graph.num_nodes)
    rows = graph.rows(nodes)
    alpha = graph.weight
    if graph.norm != "weights":
        alpha = np.repeat(rows.target_scale, rows.degree)
    if graph.norm == "weighted-mean":
        alpha = alpha * graph.weight
    squares = np.square(alpha, dtype=np.float64)  # without the source factor
    total: FloatArray = np.bincount(graph.indices, squares, graph.num_nodes).astype(np.float64)
    return total * np.square(rows.source_scale(nodes)) if graph.norm == "gcn" else total


def node_masses(graph: Graph, kind: str) -> FloatArray:
    """Mass of each node: "degree", or the "norm" or "squared" norm of its column. float64[V]."""
    if kind == "degree":
        return np.diff(graph.indptr).astype(np.float64)
    squared = squared_column_norms(graph)
    return np.sqrt(squared) if kind == "norm" else squared


def node_shares(graph: Graph, kind: str) -> FloatArray:
    """q_j, the mass of each node divided by the sum over all nodes. float64[V]."""
    mass = node_masses(graph, kind)
    total = float(mass.sum())
    return mass / total if total > 0 else np.full(mass.size, 1 / max(mass.size, 1))
