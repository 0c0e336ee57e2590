"""Estimators: weights of kept edges, chosen so that a sampled sum estimates the full one.

ht        alpha_ij / p_ij: Horvitz-Thompson, unbiased
hajek     ht, rescaled so that a target's weights sum to sum over N_i of alpha_ij;
          biased by O(1/k), usually with less error
debiased  alpha_ij w_j with the corrections of successive draws (`draws.Successive`), unbiased
sketch    alpha_ij / (k q_j), with q_j the distribution of one draw [eq:norm-prob-sketch]; biased
          for draws without replacement
released  q_ij / p_j, rescaled so that a target's weights sum to 1, with the policy's q_ij in place
          of alpha_ij, as in the paper's released code; its expectation changes with the policy
plain     alpha_ij |N_i| / ns_i with ns_i kept edges: probabilities are ignored; biased
"""

from __future__ import annotations

import numpy as np

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.feedback import EdgeMass
from bliss.graph import Graph
from bliss.kernels import frontier


def coefficients(
    graph: Graph,
    dst: IntArray,
    source: IntArray,
    kept_indptr: IntArray,
    row: IntArray,
    edge: IntArray,
    correction: FloatArray = NOTHING,
) -> FloatArray:
    """alpha_ij of the kept edges of a layer, times the correction of their source. float32[E'].

    correction float64[S]; empty means 1 everywhere
    """
    scales = graph.target_scale_of(dst), graph.source_scale_of(source), graph.weight
    dst, source = np.arange(dst.size), np.arange(source.size)  # places in the scales
    found: FloatArray = frontier.edge_weights(
        dst, source, correction, kept_indptr, row, edge, *scales
    )
    return found


def column_norms(graph: Graph) -> FloatArray:
    """Squared norm of each node's column of coefficients, sum over i of alpha_ij^2. float64[V]."""
    own = np.repeat(graph.target_scale, graph.degree) if graph.target_scale.size else graph.weight
    squares = np.square(own, dtype=np.float64)
    norm: FloatArray = np.bincount(graph.indices, squares, graph.num_nodes).astype(np.float64)
    return norm * np.square(graph.source_scale) if graph.source_scale.size else norm


def node_masses(graph: Graph, kind: str) -> FloatArray:
    """Squared norm ("squared") or norm of each node's column, or its degree. float64[V]."""
    if kind == "degree":
        return graph.degree.astype(np.float64)
    norm = column_norms(graph)
    return np.sqrt(norm) if kind == "norm" else norm


def rescale_hajek(
    graph: Graph, dst: IntArray, kept_indptr: IntArray, weight: FloatArray
) -> FloatArray:
    """Rescale, in place, each target's weights to sum to sum over N_i of alpha_ij. float32[E']."""
    frontier.rescale_rows(weight, kept_indptr, graph.coefficient_sum_of(dst))
    return weight


def released_weights(
    edge_mass: EdgeMass, prob: FloatArray, kept_indptr: IntArray, row: IntArray, edge: IntArray
) -> FloatArray:
    """q_ij / p_j divided by its sum over each target, with q_ij from the policy. float32[E']."""
    offset, slope, value, table = edge_mass
    kept_degree = np.diff(kept_indptr)
    share = np.repeat(offset, kept_degree)
    if value.size:
        known = table[value[edge]] if table.size else value[edge]
        share += np.repeat(slope, kept_degree) * known
    weight = (share / prob[row]).astype(np.float32)
    frontier.rescale_rows(weight, kept_indptr, np.ones(kept_degree.size))
    return weight
