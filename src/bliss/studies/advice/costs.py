"""Time of a training step as a function of the work in it.

    ms = b_0 + b_1 sum_l S_l w_l + b_2 sum_l E_l w_l + b_3 sum_l F_l + b_4 sum_l F_l w_l
             + b_5 sum_l D_l w_l w_(l+1)

Layer l has D_l targets with F_l in-edges, of which the sample keeps S_l sources and E_l edges, and
inputs of width w_l. The terms are what does not depend on the sample; the inputs of the sources;
the messages; the scan of all in-edges; sums over all in-edges, which only a history needs; and the
dense product. The b are not negative and fitted by least squares of relative residuals to medians
of measured steps at several budgets, separately for each kind of sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize

from bliss.arrays import FloatArray
from bliss.graph import Graph
from bliss.nn.block import Block


class LayerWork(NamedTuple):
    """Numbers of one layer of a batch, or their means over batches."""

    targets: float  # D
    sources: float  # S
    edges: float  # E, kept
    in_edges: float  # F, all
    width: int  # of the inputs
    out_width: int


Work = Sequence[LayerWork]
"""Work of a step by layer, input layer first."""


class CostModel(NamedTuple):
    """Fitted times of the terms, in milliseconds."""

    coefficient: FloatArray  # [6] b
    residual: float  # median of |fitted / measured - 1|

    def ms(self, work: Work) -> float:
        """Expected milliseconds of a step."""
        return float(terms(work) @ self.coefficient)

    def per_source(self, layer: LayerWork) -> float:
        """Microseconds per source of a layer, without its edges."""
        return float(self.coefficient[1]) * layer.width * 1e3

    def per_edge(self, layer: LayerWork) -> float:
        """Microseconds per kept edge of a layer."""
        return float(self.coefficient[2]) * layer.width * 1e3


def count(graph: Graph, blocks: Sequence[Block], widths: Sequence[int]) -> list[LayerWork]:
    """Work of a batch. widths [L + 1]: those of the network, outputs included.

    The block of an exact first hop has no edges to sample or to sum.
    """
    return [
        LayerWork(
            block.num_dst,
            block.num_src,
            block.num_edges,
            0 if _is_looked_up(block) else _in_edges(graph, block),
            widths[number],
            widths[number + 1],
        )
        for number, block in enumerate(blocks)
    ]


def mean_work(works: Sequence[Work]) -> list[LayerWork]:
    """Mean over batches, layer by layer."""
    return [
        LayerWork(*np.mean([work[:4] for work in layer], axis=0).tolist(), *layer[0][4:])
        for layer in zip(*works, strict=True)
    ]


def terms(work: Work) -> FloatArray:
    """The six sums of the model. float64[6]."""
    sums = np.zeros(6)
    sums[0] = 1.0
    for layer in work:
        sums[1] += layer.sources * layer.width
        sums[2] += layer.edges * layer.width
        sums[3] += layer.in_edges
        sums[4] += layer.in_edges * layer.width
        sums[5] += layer.targets * layer.width * layer.out_width
    return sums


def fit_costs(works: Sequence[Work], ms: Sequence[float], sums_history: bool) -> CostModel:
    """Fit the coefficients to measured steps; without a history its term is left out."""
    measured = np.asarray(ms, np.float64)
    matrix = np.stack([terms(work) for work in works]) / measured[:, None]
    if not sums_history:
        matrix[:, 4] = 0.0
    scale = np.maximum(matrix.max(0), 1e-300)
    scaled, _ = scipy.optimize.nnls(matrix / scale, np.ones(measured.size))
    coefficient: FloatArray = np.asarray(scaled / scale)
    residual = float(np.median(np.abs(matrix @ coefficient - 1)))
    return CostModel(coefficient, residual)


def _in_edges(graph: Graph, block: Block) -> int:
    """Edges that the targets of a block may see; with times, those of their past."""
    if block.rows is not None and block.rows.cutoff is not None:
        return block.rows.num_edges
    return int(graph.degree[block.dst.numpy()].sum())


def _is_looked_up(block: Block) -> bool:
    return block.control is not None and not block.control.has_history
