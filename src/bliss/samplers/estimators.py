"""Estimators: the weight of a kept edge, so that a sampled sum stands for the full one.

ht      alpha_ij / p_j                       unbiased (Horvitz-Thompson)
hajek   ht, scaled so that a target's weights sum to sum over N_i of alpha_ij;
        biased by O(1/k), usually of lower error
sketch  alpha_ij / (p_j ns_i), ns_i kept edges [eq:norm-prob-sketch]; as published: its
        aggregate is about 1/ns_i of the full one, so follow it by a sum over ns_i or choose ht
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bliss.graph import Graph
from bliss.kernels import fast
from bliss.types import NOTHING, FloatArray, IntArray

# dst [D], kept_indptr [D + 1], Horvitz-Thompson weights float32[E'] changed in place
Correction = Callable[[Graph, IntArray, IntArray, FloatArray], None]


def _ht(graph: Graph, dst: IntArray, kept_indptr: IntArray, weight: FloatArray) -> None:
    """Nothing to correct."""


def _hajek(graph: Graph, dst: IntArray, kept_indptr: IntArray, weight: FloatArray) -> None:
    fast.rescale_rows(weight, kept_indptr, graph.coefficient_sum[dst])


def _sketch(graph: Graph, dst: IntArray, kept_indptr: IntArray, weight: FloatArray) -> None:
    kept_degree = np.diff(kept_indptr)
    weight /= np.repeat(kept_degree, kept_degree).astype(np.float32)


ESTIMATORS: dict[str, Correction] = {"ht": _ht, "hajek": _hajek, "sketch": _sketch}


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
    weight: FloatArray = fast.horvitz_thompson(
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
    ESTIMATORS[estimator](graph, dst, kept_indptr, weight)
    return weight
