"""`node`: our bandit, an arm for size and one for attention per node and layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.graph import Graph
from bliss.kernels import node_bandit as kernels
from bliss.policies.base import CoefficientPolicy, State
from bliss.policies.estimates import Beliefs
from bliss.policies.signals import log_size
from bliss.types import EdgeMass, Feedback, NodeCodes


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """How boldly it explores, and how fast it follows what is seen."""

    eta: float = 0.01
    """Share of a factor that ignores what was learnt."""
    memory: float = 0.1
    """Least weight of the newest observation (beta): embeddings move, so old news fades."""

    def __post_init__(self) -> None:
        checks.share(
            "eta",
            self.eta,
            "at 0 a source can become unreachable and its 1/p undefined, start with 0.01.",
        )
        checks.share("memory", self.memory, "at 0 nothing new is learnt, start with 0.1.")

    def build(self, graph: Graph, layers: int) -> NodeBandit:
        """Make the policy for a graph."""
        return NodeBandit(graph, layers, self)


DEFAULT = NodeConfig()

_DECODED = ((np.arange(256) - kernels.CODE_OF_ONE) / kernels.CODES_PER_UNIT).astype(np.float32)
_SMALLEST_SUM = 1e-30  # of a target without in-edges


class NodeBandit(CoefficientPolicy):
    """s_j = f_j sqrt(sum_i alpha_ij^2), with f_j learnt: the size of j's message.

    The best masses are |h_j| sqrt(sum_i alpha_ij^2). Without attention the second factor is known,
    and the first is shared by all edges out of j and observed exactly whenever j is kept:

        f_j = (1 - eta) exp(believed log|h_j|) + eta

    in which log|h_j|, relative to the layer's, is followed and shrunk by `Beliefs`; f_j is 1 for
    nodes never seen. Attention is learnt as a score per node, on which all targets agree but for
    the sum that they divide by:

        alpha_ij = a_j / sum_{k in N_i} a_k,
        s_j      = f_j sqrt(sum_i 1 / (sum_{k in N_i} a_k)^2),
        f_j      = (1 - eta) exp(believed log|h_j| + believed log a_j) + eta

    log a_j is followed and shrunk in the same way; its news are what the kept softmax leaves of a
    source once each target's own part is taken out (`kernels.nodes.source_scores`). That part of
    attention which depends on the target is so found by normalisation, not by learning: a target
    whose neighbours have high scores pays little to each.

    Cost: with attention, one more pass over the frontier's edges that reads a byte each. State: 18
    bytes per node and layer, of which the 8 of scores are not touched without attention. log f_j
    and log a_j are kept as a byte each, because a draw reads them for every candidate and edge.
    """

    name = "node"
    learns = True
    power = 0.5

    def __init__(self, graph: Graph, layers: int, config: NodeConfig = DEFAULT) -> None:
        super().__init__(graph, layers)
        self.config = config
        nodes = graph.num_nodes
        self._size = Beliefs(nodes, layers, config.memory)
        self._score = Beliefs(nodes, layers, config.memory)
        self._code, self._score_code = (
            [np.full(nodes, kernels.CODE_OF_ONE, np.uint8) for _ in range(layers)] for _ in range(2)
        )
        factor = (1 - config.eta) * np.exp(_DECODED) + config.eta
        self._table = np.square(factor).astype(np.float32)

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """alpha_ij, or with attention what it owes to the target: 1 / sum over N_i of a_j."""
        if not self._has_attention(layer):
            return super().edge_mass(layer, dst)
        graph, code = self.graph, self._score_code[layer]
        sums = kernels.coded_sums(dst, graph.indptr, graph.indices, code, np.exp(_DECODED))
        return EdgeMass(1 / np.maximum(sums, _SMALLEST_SUM), np.zeros(dst.size), NOTHING)

    def source_factor(self, layer: int) -> FloatArray:
        """b_j of alpha_ij; attention owes nothing to it."""
        return NOTHING if self._has_attention(layer) else super().source_factor(layer)

    def node_codes(self, layer: int) -> NodeCodes:
        """f_j^2: inside the square root of the mass, it stands squared."""
        return NodeCodes(self._code[layer], self._table)

    def update(self, layer: int, feedback: Feedback) -> None:
        """Move the estimates of the sampled nodes."""
        if not feedback.norm.any():
            return  # a dead layer says nothing of its nodes
        if feedback.attention.size:
            self._update_scores(layer, feedback)
        believed = self._size.follow(layer, feedback.src, log_size(feedback.norm))
        if self._has_attention(layer):  # learnt now or before
            believed += _DECODED[self._score_code[layer][feedback.src]]
        kernels.encode(feedback.src, believed, self._code[layer])

    def _update_scores(self, layer: int, feedback: Feedback) -> None:
        """Move the scores of those sources of which the kept softmax tells something."""
        code, known = self._score_code[layer], _DECODED[self._score_code[layer][feedback.src]]
        news = kernels.source_scores(feedback.indptr, feedback.row, feedback.attention, known)
        told = ~np.isnan(news)
        if told.any():
            source = feedback.src[told]
            kernels.encode(source, self._score.follow(layer, source, news[told]), code)

    def state_dict(self) -> State:
        """Sizes, scores, and the codes of both."""
        state = self._size.state_dict("node.size") | self._score.state_dict("node.score")
        for layer in range(self.layers):
            state[f"node.{layer}.code"] = self._code[layer]
            state[f"node.{layer}.score_code"] = self._score_code[layer]
        return state

    def _has_attention(self, layer: int) -> bool:
        """Whether this layer has told of attention yet."""
        return bool(self._score.steps[layer])
