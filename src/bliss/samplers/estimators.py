"""Estimators: the weight of a kept edge, so that a sampled sum stands for the full one.

ht      alpha_ij / p_j                       unbiased (Horvitz-Thompson)
hajek   ht, scaled so that a target's weights sum to sum over N_i of alpha_ij;
        biased by O(1/k), usually of lower error
sketch  alpha_ij / (p_j ns_i), ns_i kept edges [eq:norm-prob-sketch]; as published: its
        aggregate is about 1/ns_i of the full one, so follow it by a sum over ns_i or choose ht
released  q_ij / p_j, scaled so that a target's weights sum to 1, with the policy's q_ij in the
        place of alpha_ij: what the paper's released code does. Its target moves with the policy.
plain   alpha_ij |N_i| / ns_i, chances left out: node-wise bandits alone, biased
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.graph import Graph
from bliss.kernels import frontier
from bliss.types import EdgeMass

# dst [D], kept_indptr [D + 1], Horvitz-Thompson weights float32[E'] changed in place
Correction = Callable[[Graph, IntArray, IntArray, FloatArray], None]


def _ht(graph: Graph, dst: IntArray, kept_indptr: IntArray, weight: FloatArray) -> None:
    """Nothing to correct."""


def _hajek(graph: Graph, dst: IntArray, kept_indptr: IntArray, weight: FloatArray) -> None:
    frontier.rescale_rows(weight, kept_indptr, graph.coefficient_sum[dst])


def _sketch(graph: Graph, dst: IntArray, kept_indptr: IntArray, weight: FloatArray) -> None:
    kept_degree = np.diff(kept_indptr)
    weight /= np.repeat(kept_degree, kept_degree).astype(np.float32)


CORRECTIONS: dict[str, Correction] = {"ht": _ht, "hajek": _hajek, "sketch": _sketch}

ESTIMATORS = (*CORRECTIONS, "released")


def edge_weights(
    estimator: str,
    graph: Graph,
    dst: IntArray,
    source: IntArray,
    prob: FloatArray,
    kept_indptr: IntArray,
    row: IntArray,
    edge: IntArray,
    edge_prob: FloatArray = NOTHING,
) -> FloatArray:
    """Weights of the kept edges of one layer by the estimator's name. float32[E'].

    Where edges have chances of their own, these are `edge_prob` [E'] and `prob` is 1.
    """
    weight: FloatArray = frontier.horvitz_thompson(
        dst,
        source,
        prob,
        kept_indptr,
        row,
        edge,
        graph.target_scale,
        graph.source_scale,
        graph.weight,
    )
    if edge_prob.size:
        weight /= edge_prob
    CORRECTIONS[estimator](graph, dst, kept_indptr, weight)
    return weight


def released_weights(
    edge_mass: EdgeMass, prob: FloatArray, kept_indptr: IntArray, row: IntArray, edge: IntArray
) -> FloatArray:
    """q_ij / p_j over its sum at each target, with q_ij from the policy. float32[E']."""
    offset, slope, value = edge_mass
    kept_degree = np.diff(kept_indptr)
    share = np.repeat(offset, kept_degree)
    if value.size:
        share += np.repeat(slope, kept_degree) * value[edge]
    weight = (share / prob[row]).astype(np.float32)
    frontier.rescale_rows(weight, kept_indptr, np.ones(kept_degree.size))
    return weight
