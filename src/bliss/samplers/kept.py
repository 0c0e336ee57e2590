"""`KeptEdges`: the kept edges of a layer, from which an estimator makes a block."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bliss.arrays import NO_IDS, NOTHING, FloatArray, IntArray
from bliss.feedback import EdgeMass
from bliss.graph import Cutoff, Rows
from bliss.kernels import frontier, nodewise, times
from bliss.kernels.gathering import gather
from bliss.nn.block import Block
from bliss.samplers.estimators import Estimator
from bliss.samplers.workspace import Workspace


class KeptEdges(NamedTuple):
    """The kept edges of a layer, before an estimator sets their weights."""

    rows: Rows  # the edges that the targets could see
    source: IntArray  # int64[S] graph ids, targets first
    indptr: IntArray  # int64[G + 1] kept edges by group of rows
    row: IntArray  # int64[E'] position in source
    edge: IntArray  # int64[E'] graph edge id
    edge_prob: FloatArray = NOTHING  # float32[E'] probability of each edge
    correction: FloatArray | None = None  # float64[S] factor of the weights of j's edges, if drawn
    prob: FloatArray | None = None  # float32[S] p_j, if sources are drawn and it has a closed form
    edge_mass: EdgeMass | None = None  # the policy's c_ij
    cutoff: Cutoff | None = None  # [S] times that each source may see; None: all

    @classmethod
    def of_sources(cls, rows: Rows, source: IntArray, workspace: Workspace) -> KeptEdges:
        """All visible edges from kept sources. source int64[S], targets first."""
        workspace.reserve_edges(rows.num_edges)
        scratch = workspace.bits, workspace.position, workspace.edge
        return cls(rows, source, *gather(*rows.ranges, rows.graph.indices, source, *scratch))

    @classmethod
    def of_edges(
        cls,
        rows: Rows,
        indptr: IntArray,
        edge: IntArray,
        prob: FloatArray,
        workspace: Workspace,
    ) -> KeptEdges:
        """Kept edges [E'] by group, each with its probability.

        With times, a node is one source for each time of the targets (`times.pair_sources`).
        """
        cutoff, indices, number = rows.cutoff, rows.graph.indices, workspace.number
        if cutoff is None or cutoff.is_one:
            targets, place = distinct_targets(rows, workspace)
            if cutoff is None or targets.size == place.size:
                source, row = nodewise.relabel(indices, targets, edge, number)
                bounds = cutoff and cutoff[np.zeros(source.size, np.int64)]
                return cls(rows, source, indptr, row, edge, prob, cutoff=bounds)
        order = np.argsort(cutoff.before, kind="stable")
        given = rows.dst, cutoff.before, cutoff.after, rows.by_target(indptr), edge, order, number
        source, row, *times_seen = times.pair_sources(indices, *given)
        return cls(rows, source, indptr, row, edge, prob, cutoff=Cutoff(*times_seen))

    def with_times(self, place: IntArray) -> KeptEdges:
        """Sources that see no later than the targets they lead to; see `times.share_sources`.

        place  int64[D]  position of each target in source, from `distinct_targets`
        """
        cutoff = self.rows.cutoff
        if cutoff is None:
            return self
        if cutoff.is_one and place.size == int(place.max(initial=-1)) + 1:  # distinct targets
            return self._replace(cutoff=cutoff[np.zeros(self.source.size, np.int64)])
        edges = self.rows.by_target(self.indptr), self.row, self.source.size
        node, row, *bounds = times.share_sources(place, cutoff.before, cutoff.after, *edges)
        return self._replace(
            source=self.source[node],
            row=row,
            correction=None if self.correction is None else self.correction[node],
            prob=None if self.prob is None else self.prob[node],
            cutoff=Cutoff(*bounds),
        )

    def coefficients(self, correction: FloatArray = NOTHING) -> FloatArray:
        """alpha_ij, times the correction of each source. float64[S] -> float32[E']."""
        return self.rows.coefficients(self.source, self.indptr, self.row, self.edge, correction)

    def rescaled(self, weight: FloatArray, total: FloatArray) -> FloatArray:
        """The weights, rescaled in place so that group g sums to total_g. float32[E']."""
        frontier.rescale_rows(weight, self.indptr, total)
        return weight

    def block(self, estimator: Estimator) -> Block:
        """The block of these edges, with the estimator's weights."""
        rows, weight = self.rows, estimator.weights(self)
        edges = self.indptr, self.row, self.edge, self.edge_prob, weight
        dst = self.source[: rows.dst.size]
        block = Block.from_arrays(dst, self.source, *edges, prob=self.prob, rows=rows)
        return block if self.cutoff is None else replace(block, cutoff=self.cutoff)


def distinct_targets(rows: Rows, workspace: Workspace) -> tuple[IntArray, IntArray]:
    """Distinct nodes among the targets int64[U], and the position of each target int64[D].

    Without times targets are distinct, and there are no positions.
    """
    if rows.cutoff is None:
        return rows.dst, NO_IDS
    every = np.arange(rows.dst.size)
    nodes, place = nodewise.relabel(rows.dst, NO_IDS, every, workspace.number)
    return nodes, place
