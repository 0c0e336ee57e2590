"""Influence: how much the error of each target matters to the loss.

The error of target i reaches the loss through everything above it. With g_i = |dL/dz_i|, the size
of the gradient at its aggregate, the variance of the aggregates, weighted by g_i^2, and the masses
that minimise it are

    V   = sum_j (1 / p_j - 1) |h_j|^2 sum_i g_i^2 alpha_ij^2
    s_j = |h_j| sqrt(sum_i g_i^2 alpha_ij^2)

Layers are drawn from the output down, so most of g is known when a layer is drawn: its targets are
the sources of the layer above, each of which was drawn with weights. This is the prior,

    g_j^2 = sum_i g_i^2 weight_ij^2 + [j is a target above] g_j^2,    g = 1 at the seeds

A source that was kept with a small probability has a large weight, so its own aggregate gets more
of the next budget. Attention divides its weights by their sum, so with attention each target's
weights are first scaled to sum to 1.

Weights alpha_ij / p_j stay unbiased, because g depends on the coins of the layers above alone, of
which the coins of a layer are independent.
"""

from __future__ import annotations

import numpy as np

from bliss.arrays import NOTHING, FloatArray
from bliss.feedback import EdgeMass
from bliss.graph import Rows
from bliss.kernels import frontier
from bliss.nn.block import Block


def of_sources(
    block: Block, influence: FloatArray = NOTHING, *, has_attention: bool = False
) -> FloatArray:
    """g_j^2 of a block's sources, relative to their mean. [D] -> float64[S].

    influence      g_i^2 of the targets; empty: 1 everywhere, as at the seeds
    has_attention  whether the network learns the coefficients of this layer
    """
    if not influence.size:
        influence = np.ones(block.num_dst)
    indptr, row, weight = (one.numpy() for one in (block.indptr, block.row, block.edge_weight))
    if has_attention:
        weight = weight.copy()
        frontier.rescale_rows(weight, indptr, np.ones(block.num_dst))
    squares: FloatArray = frontier.source_influence(indptr, row, weight, influence, block.num_src)
    return squares / max(float(squares.mean()), 1e-300)  # only ratios matter


def weighted(mass: EdgeMass, rows: Rows) -> EdgeMass:
    """c_ij times g_i, the influence of its target."""
    if not rows.influence.size:
        return mass
    factor = rows.by_group(np.sqrt(rows.influence))
    slope = mass.slope * factor if mass.value.size else mass.slope
    return mass._replace(offset=mass.offset * factor, slope=slope)
