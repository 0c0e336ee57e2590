"""`node`: one arm for size and one for attention per node and layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.feedback import EdgeMass, Feedback, News, NodeCodes, log_size
from bliss.graph import Graph
from bliss.kernels import node_bandit as kernels
from bliss.policies.ages import AgeCurve
from bliss.policies.base import CoefficientPolicy, State
from bliss.policies.configs import NodeConfig
from bliss.policies.estimates import RunningEstimates

_DECODED = ((np.arange(256) - kernels.CODE_OF_ONE) / kernels.CODES_PER_UNIT).astype(np.float32)
_SMALLEST_SUM = 1e-30  # for a target without in-edges


class NodeBandit(CoefficientPolicy):
    """s_j = f_j sqrt(sum_i alpha_ij^2), with f_j the learnt size of source j's message.

    The best masses are |h_j| sqrt(sum_i alpha_ij^2). Without attention the second factor is known.
    The first is shared by all edges out of j and is observed exactly whenever j is kept:

        f_j = (1 - eta) exp(estimate of log|h_j|) + eta

    `RunningEstimates` follows log|h_j| relative to the layer and shrinks it; f_j is 1 for unseen
    nodes. Attention is modelled as one score per node, normalised for each target:

        alpha_ij = a_j / sum_{k in N_i} a_k,
        s_j      = f_j sqrt(sum_i 1 / (sum_{k in N_i} a_k)^2),
        f_j      = (1 - eta) exp(estimate of log|h_j| + estimate of log a_j) + eta

    log a_j is followed and shrunk in the same way; its observation is the log attention minus the
    target's mean (`kernels.node_bandit.source_scores`). The part of attention that depends on the
    target comes from the normalisation, not from learning.

    With histories (`bliss.samplers.history`), |h_j - h~_j| takes the place of |h_j|. It depends on
    the age of the history, so log|h_j - h~_j| is followed relative to its mean at that age
    (`AgeCurve`), and f_j is multiplied by the curve at the present age.

    Cost: with attention, one more pass over the frontier's edges that reads a byte each. State: 18
    bytes per node and layer, of which the 8 of scores are not touched without attention. log f_j
    and log a_j are stored as a byte each, because a draw reads them for every candidate and edge.
    """

    name = "node"
    learns = True
    power = 0.5

    def __init__(self, graph: Graph, layers: int, config: NodeConfig | None = None) -> None:
        super().__init__(graph, layers)
        self.config = config = config or NodeConfig()
        nodes = graph.num_nodes
        self._size = RunningEstimates(nodes, layers, config.memory)
        self._score = RunningEstimates(nodes, layers, config.memory)
        self._ages = AgeCurve(layers, config.memory)
        self._code, self._score_code = (
            [np.full(nodes, kernels.CODE_OF_ONE, np.uint8) for _ in range(layers)] for _ in range(2)
        )
        factor = (1 - config.eta) * np.exp(_DECODED) + config.eta
        self._table = np.square(factor).astype(np.float32)

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """alpha_ij, or with attention its target factor, 1 / sum over N_i of a_j."""
        if not self._has_attention(layer):
            return super().edge_mass(layer, dst)
        graph, code = self.graph, self._score_code[layer]
        sums = kernels.coded_sums(dst, graph.indptr, graph.indices, code, np.exp(_DECODED))
        return EdgeMass(1 / np.maximum(sums, _SMALLEST_SUM), np.zeros(dst.size), NOTHING)

    def source_factor(self, layer: int) -> FloatArray:
        """b_j of alpha_ij; 1 with attention."""
        return NOTHING if self._has_attention(layer) else super().source_factor(layer)

    def node_codes(self, layer: int) -> NodeCodes:
        """f_j^2, because the mass takes the square root."""
        return NodeCodes(self._code[layer], self._table)

    def age_factor(self, layer: int) -> FloatArray:
        """The mean change of an input by the age of its history."""
        return self._ages.factor(layer)

    def digest(self, layer: int, feedback: Feedback) -> News:
        """Sources, log|h_j| and, with attention, scores; empty for an all-zero layer."""
        if not feedback.norm.any():
            return {}
        news = {"source": feedback.src, "size": log_size(feedback.norm)}
        if feedback.age is not None:
            news["age"] = feedback.age
        if feedback.attention is not None:
            known = _DECODED[self._score_code[layer][feedback.src]]
            news["score"] = kernels.source_scores(
                feedback.indptr, feedback.row, feedback.attention, known
            )
        return news

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Move the estimates of the observed nodes."""
        told = [one for one in news if one]
        if not told:
            return
        self._apply_scores(layer, [one for one in told if "score" in one])
        sources = [one["source"] for one in told]
        signals = [one["size"] for one in told]
        if "age" in told[0]:
            signals = self._ages.follow(layer, [one["age"] for one in told], signals)
        sizes = self._size.follow(layer, sources, signals)
        for source, logarithm in zip(sources, sizes, strict=True):
            if self._has_attention(layer):  # learnt in this step or before
                logarithm += _DECODED[self._score_code[layer][source]]
            kernels.encode(source, logarithm, self._code[layer])

    def _apply_scores(self, layer: int, news: Sequence[News]) -> None:
        """Move the scores of the sources whose score was observed (not NaN)."""
        known = [~np.isnan(one["score"]) for one in news]
        pairs = [(n["source"][k], n["score"][k]) for n, k in zip(news, known, strict=True)]
        pairs = [(source, score) for source, score in pairs if source.size]
        if not pairs:
            return
        sources, scores = (list(column) for column in zip(*pairs, strict=True))
        for source, logarithm in zip(
            sources, self._score.follow(layer, sources, scores), strict=True
        ):
            kernels.encode(source, logarithm, self._score_code[layer])

    def state_dict(self) -> State:
        """Size and score estimates, and the codes of both."""
        state = self._size.state_dict("node.size") | self._score.state_dict("node.score")
        state |= self._ages.state_dict("node.age")
        for layer in range(self.layers):
            state[f"node.{layer}.code"] = self._code[layer]
            state[f"node.{layer}.score_code"] = self._score_code[layer]
        return state

    def _has_attention(self, layer: int) -> bool:
        """Whether attention was observed in this layer."""
        return bool(self._score.steps[layer])
