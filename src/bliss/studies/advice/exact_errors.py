"""Expected squared error of a layer's sampled aggregates, in closed form from exact embeddings.

The aggregate of target i is mu_i = sum_j alpha_ij h_j, over its d_i in-edges. With y_ij the part of
a message that is sampled,

    layer-wise  V = sum_j (1 / p_j - 1) sum_i |y_ij|^2
    node-wise   V = sum_i d_i (d_i - f) / (f (d_i - 1)) (sum_j |y_ij|^2 - |sum_j y_ij|^2 / d_i)

for independent coins of the sources, and for f of d_i in-edges drawn uniformly without replacement.

    ht       y_ij = alpha_ij h_j
    history  y_ij = alpha_ij (h_j - h~_j)
    hajek    y_ij = alpha_ij (h_j - mu_i / sum_k alpha_ik), whose sum over j is 0

V of ht and of a history is exact for fixed inputs. That of hajek is the usual linear approximation,
exact to first order in 1 / k. Attention on samples is a softmax over the kept edges, corrected by
their probabilities, which is also a ratio: its V is that of hajek with the exact attention.

The relative error of a layer is V / sum_i |mu_i|^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import NOTHING, BoolArray, FloatArray, IntArray
from bliss.graph import Graph, HiddenEdges, Rows
from bliss.nn import GNN, infer
from bliss.nn.block import Block
from bliss.nn.inference import LayerSurvey
from bliss.samplers import Full, LayerSampler, Sampler
from bliss.samplers.config_base import EstimatorConfig
from bliss.samplers.influence import of_sources
from bliss.studies.layer_errors import error

CHUNK = 2**22
"""Numbers of messages held at a time."""
WIDE = 256
"""Inputs that are wider are projected to this width at random, which keeps distances on average."""


class LayerError(NamedTuple):
    """Expected squared error of a layer's aggregates, and their own square."""

    error: float  # V
    square: float  # sum_i |mu_i|^2

    @property
    def relative(self) -> float:
        """Share of the error in the square of the aggregates."""
        return self.error / self.square if self.square > 0 else 0.0


class ExactRows(NamedTuple):
    """Exact quantities of the edges [E'] and groups [G] of some rows."""

    edge: IntArray  # int64[E']
    alpha: FloatArray  # float32[E']
    apart: FloatArray  # float32[E'] |h_j - mu_i / sum_k alpha_ik|^2
    square: FloatArray  # float32[G] |mu_i|^2

    def pairs(self, indptr: IntArray, sources: IntArray) -> ExactRows:
        """The same with parallel edges of a group, which are drawn together, as one edge.

        indptr [G + 1], sources [E']; `edge` is then the source.
        """
        group = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        code = group * (int(sources.max(initial=0)) + 1) + sources.astype(np.int64)
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
        alpha = np.bincount(place, self.alpha).astype(float)
        return ExactRows(sources[first], alpha, self.apart[first], self.square)


class ExactLayer:
    """Exact messages of one layer. Rows of edges are computed when they are first needed.

    Inputs wider than WIDE are replaced by their projection on random signs, s = x R / sqrt(WIDE).
    E |s|^2 = |x|^2, and sums of many squares hardly differ from their expectation. With attention,
    coefficients come from the inputs themselves.

    Memory: 8 bytes per edge, 16 per node, and the layer's inputs.

    x [V, F] are the exact inputs of the layer, on the CPU. The network is in evaluation mode.
    """

    def __init__(self, graph: Graph, model: GNN, layer: int, x: Tensor) -> None:
        self.graph, self.model, self.layer, self.x = graph, model, layer, x
        message = model.messages(x)
        self.sketch = message if message.size(1) <= WIDE else _projected(message)
        self.size: FloatArray = torch.linalg.vector_norm(message, dim=1).double().square().numpy()
        self.square: FloatArray = np.zeros(graph.group_ptr.size - 1)  # [Q] |mu_i|^2 of each group
        self._squared = np.zeros(graph.num_edges, np.float32)  # alpha_ij^2
        self._spread = np.zeros(graph.num_edges, np.float32)  # |y_ij|^2 of hajek
        self._is_known: BoolArray = np.zeros(graph.num_nodes, bool)
        self._full = Full(graph, layers=1)

    def squares(self, edge: IntArray, kind: str, change: FloatArray | None = None) -> FloatArray:
        """|y_ij|^2 of in-edges of learnt targets. edge [E'], change [V] |h_j - h~_j|^2."""
        if change is None and kind == "hajek":
            return self._spread[edge].astype(np.float64)
        size = self.size if change is None else change
        return self._squared[edge] * size[self.graph.indices[edge]]

    def learn(self, dst: IntArray, without: HiddenEdges | None = None) -> None:
        """Compute the rows of these targets, if they are not known yet.

        Rows that lose hidden edges are computed for this batch. Of other rows, coefficients that
        depend on the degree of a source are those with all edges.
        """
        if without is not None:
            self._is_known[without.node] = False
        new = dst[~self._is_known[dst]]
        part = np.cumsum(self.graph.degree[new]) * max(self.sketch.size(1), 1) // CHUNK
        for chunk in np.split(new, np.flatnonzero(np.diff(part)) + 1):
            if chunk.size:
                self._learn(chunk, without)
        self._is_known[new] = True
        if without is not None:
            self._is_known[without.node] = False

    def _learn(self, dst: IntArray, without: HiddenEdges | None) -> None:
        rows = self.graph.rows(dst, without)
        found = self._exact(rows)
        self.square[rows.group_id] = found.square
        self._squared[found.edge] = found.alpha**2
        self._spread[found.edge] = found.alpha**2 * found.apart

    def in_time(self, rows: Rows) -> ExactRows:
        """Exact quantities of rows that end at the times of their targets."""
        if self.graph.types is not None:  # targets have several groups
            return self._exact(rows)
        part = np.cumsum(rows.degree) * max(self.sketch.size(1), 1) // CHUNK
        groups = np.split(np.arange(rows.degree.size), np.flatnonzero(np.diff(part)) + 1)
        parts = [self._exact(rows.of_groups(own)) for own in groups]
        return ExactRows(*(np.concatenate(one) for one in zip(*parts, strict=True)))

    @torch.no_grad()
    def _exact(self, rows: Rows) -> ExactRows:
        (block,) = self._full.sample(rows.dst, 0, without=rows.hidden, time=rows.cutoff)
        alpha = self._alpha(block)
        message = self.sketch.index_select(0, block.src[block.row])  # [E', F]
        group = torch.arange(rows.degree.size).repeat_interleave(torch.from_numpy(rows.degree))
        mean = torch.zeros(rows.degree.size, message.size(1))
        mean.index_add_(0, group, alpha[:, None] * message)
        square = mean.square().sum(1).numpy()
        total = torch.zeros(rows.degree.size).index_add_(0, group, alpha)
        mean /= torch.where(total == 0, 1.0, total)[:, None]
        apart = (message - mean.index_select(0, group)).square().sum(1)
        return ExactRows(block.edge.numpy(), alpha.numpy(), apart.numpy(), square)

    def _alpha(self, block: Block) -> Tensor:
        """Exact coefficients of a full block's edges. float32[E']."""
        if not self.model.config.is_attention:
            return block.edge_weight
        device = self.model.device
        inputs = self.x.index_select(0, block.src).to(device)
        return self.model.attention(self.layer, inputs, block.to(device)).cpu()


def _projected(x: Tensor) -> Tensor:
    """Rows times a fixed matrix of random signs, scaled. [V, F] -> [V, WIDE]."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (x.size(1), WIDE), generator=generator).to(x.dtype) * 2 - 1
    projected: Tensor = x @ (signs / WIDE**0.5)
    return projected


class ExactErrors:
    """Expected errors of samplers for one network, whose weights must not change.

    x [V, F] are the features, on the CPU. The network is left in evaluation mode.
    """

    def __init__(self, model: GNN, graph: Graph, x: Tensor) -> None:
        self.graph, self.is_attention = graph, model.config.is_attention
        self.layers: list[ExactLayer] = []
        self.surveys: list[LayerSurvey] = []

        def observer(number: int, survey: LayerSurvey) -> None:
            self.layers.append(ExactLayer(graph, model, number, survey.input))
            self.surveys.append(survey)

        infer(model, graph, x, device=model.device, observer=observer)
        model.eval()

    def changes(self, sampler: Sampler) -> list[FloatArray] | None:
        """|h_j - h~_j|^2 of every node in each sampled layer, if there is a history. [V] each."""
        history = sampler.history
        if history is None:
            return None
        changes = []
        for number, exact in enumerate(self.layers[-sampler.layers :]):
            known = torch.from_numpy(np.asarray(history.value(number), np.float32))
            changes.append((exact.x - known).double().square().sum(1).numpy())
        return changes

    def of(
        self,
        sampler: Sampler,
        blocks: Sequence[Block],
        changes: Sequence[FloatArray] | None = None,
        without: HiddenEdges | None = None,
    ) -> list[LayerError]:
        """Error of each layer for the targets of drawn blocks, input layer first.

        Parameters
        ----------
        sampler
            A layer-wise sampler with independent coins, or a node-wise one that draws uniformly.
        blocks
            Blocks that it drew. Only their targets matter.
        changes
            Result of `changes`, for a sampler with a history.
        without
            Edges that the batch does not see. Exact inputs of layers are those of all edges.

        With times, rows and coefficients are those up to the times of the targets; exact inputs of
        layers above the first are those of all times. The fit to measured errors of the gradient
        (`budgets.fit_sensitivity`) takes up what this misses.
        """
        assert isinstance(sampler.config, EstimatorConfig)
        kind = "hajek" if self.is_attention else sampler.config.estimator
        skipped = len(blocks) - sampler.layers  # 1 with an exact first hop
        errors = [LayerError(0.0, 0.0)] * skipped
        influence = self._influence(sampler, blocks[skipped:])
        for number, block in enumerate(blocks[skipped:]):
            exact, dst = self.layers[number + skipped], block.dst.numpy()
            if block.rows is not None and block.rows.cutoff is not None:
                rows = replace(block.rows, influence=influence[number])
                errors.append(self._in_time(sampler, rows, number, kind))
                continue
            exact.learn(dst, without)
            rows = replace(self.graph.rows(dst, without), influence=influence[number])
            _, edge = rows.edges()
            squares = exact.squares(edge, kind, None if changes is None else changes[number])
            sources, square = self.graph.indices[edge], exact.square[rows.group_id]
            errors.append(_error(sampler, number, kind, rows, sources, squares, square))
        return errors

    def _in_time(self, sampler: Sampler, rows: Rows, number: int, kind: str) -> LayerError:
        """Error of one layer for rows that end at the times of their targets."""
        exact, (indptr, edge) = self.layers[number], rows.edges()
        found = exact.in_time(rows)
        sources: IntArray = self.graph.indices[edge]
        if isinstance(sampler, LayerSampler):
            found = found.pairs(indptr, sources)
            sources = found.edge
        base = found.apart if kind == "hajek" else exact.size[sources]
        squares = found.alpha.astype(np.float64) ** 2 * base
        return _error(sampler, number, kind, rows, sources, squares, found.square)

    def _influence(self, sampler: Sampler, blocks: Sequence[Block]) -> list[FloatArray]:
        """g_i^2 of the targets of each sampled layer; empty arrays if the sampler has none."""
        found = [NOTHING]
        for block in blocks[:0:-1]:
            weighs, last = sampler.config.weighs_targets, found[-1]
            found.append(
                of_sources(block, last, has_attention=self.is_attention) if weighs else NOTHING
            )
        return found[::-1]


def _error(
    sampler: Sampler,
    number: int,
    kind: str,
    rows: Rows,
    sources: IntArray,
    squares: FloatArray,
    square: FloatArray,
) -> LayerError:
    """Error of one layer: sources and |y_ij|^2 of its edges [E'], |mu_i|^2 of its groups [G]."""
    if isinstance(sampler, LayerSampler):
        seen = rows.influence, rows.hidden, rows.cutoff
        chosen = sampler.inclusion(rows.dst, number, *seen)
        stake: FloatArray = np.bincount(sources, squares, rows.graph.num_nodes).astype(float)
        value = error(chosen.prob, stake[chosen.candidate])
    else:
        centre = square if kind == "ht" else np.zeros(square.size)
        value = _nodewise_error(rows.edges()[0], squares, centre, sampler.budgets[number])
    return LayerError(value, float(square.sum()))


def _nodewise_error(
    indptr: IntArray, squares: FloatArray, centre: FloatArray, fanout: int
) -> float:
    """V of uniform draws of `fanout` edges. indptr [G + 1], squares [E'], centre [G], by group."""
    degree = np.diff(indptr)
    is_sampled = degree > fanout
    rows = np.repeat(np.arange(degree.size), degree)
    total = np.bincount(rows, squares, degree.size)[is_sampled]
    degree = degree[is_sampled].astype(np.float64)
    factor = degree * (degree - fanout) / (fanout * (degree - 1))
    return float((factor * (total - centre[is_sampled] / degree)).sum())
