"""`node`: our bandit, one arm per node and layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bliss import checks
from bliss.graph import Graph
from bliss.kernels import bandits
from bliss.policies.base import CoefficientPolicy, State
from bliss.policies.signals import log_size
from bliss.types import Feedback, NodeCodes


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """How fast a node's factor follows what is seen, and how much of it is believed."""

    eta: float = 0.01
    """Share of a factor that ignores what was learnt."""
    memory: float = 0.1
    """Least weight of the newest observation (beta): embeddings move, so old news fades."""
    prior: float = 0.5
    """Observations it takes to believe half of what was seen (s)."""

    def __post_init__(self) -> None:
        checks.share(
            "eta",
            self.eta,
            "at 0 a source can become unreachable and its 1/p undefined, start with 0.01.",
        )
        checks.share("memory", self.memory, "at 0 nothing new is learnt, start with 0.1.")
        checks.positive("prior", self.prior, "a first look is noisy, start with 0.5.")

    def build(self, graph: Graph, layers: int) -> NodeBandit:
        """Make the policy for a graph."""
        return NodeBandit(graph, layers, self)


DEFAULT = NodeConfig()


class NodeBandit(CoefficientPolicy):
    """s_j = f_j sqrt(sum_i alpha_ij^2), with f_j learnt: the size of j's message.

    The best masses are |h_j| sqrt(sum_i alpha_ij^2). The second factor is known; the first is
    shared by all edges out of j and observed exactly whenever j is kept. For a kept source

        v_j  = log|h_j| - (running mean of that over the layer's sources)
        m_j <- m_j + max(1 / (n_j + 1), beta) (v_j - m_j),    n_j <- n_j + 1
        f_j  = (1 - eta) exp(m_j n_j / (n_j + s)) + eta

    so f_j starts at 1 and is shrunk towards it while little is known. With attention, v_j gains
    half the log of the mean over j's kept edges of (alpha_ij |N_i|)^2: a target's attention
    relative to its mean (`kernels.bandits.relative_attention`), so it belongs with norm="mean".

    State: 9 bytes per node and layer: mean and count in one word, because a step touches its
    sampled nodes in random order, and log f_j as a byte, because a draw reads that of every
    candidate.
    """

    name = "node"
    learns = True
    power = 0.5

    def __init__(self, graph: Graph, layers: int, config: NodeConfig = DEFAULT) -> None:
        super().__init__(graph, layers)
        self.config = config
        nodes = graph.num_nodes
        self._arm = [np.zeros((nodes, 2), np.float32) for _ in range(layers)]  # m_j, n_j
        self._code = [np.full(nodes, bandits.CODE_OF_ONE, np.uint8) for _ in range(layers)]
        self._level = np.zeros(layers)  # running mean of the signal
        self._steps = np.zeros(layers, np.int64)
        log_factor = (np.arange(256) - bandits.CODE_OF_ONE) / bandits.CODES_PER_UNIT
        factor = (1 - config.eta) * np.exp(log_factor) + config.eta
        self._table = np.square(factor).astype(np.float32)

    def node_codes(self, layer: int) -> NodeCodes:
        """f_j^2: inside the square root of the mass, it stands squared."""
        return NodeCodes(self._code[layer], self._table)

    def update(self, layer: int, feedback: Feedback) -> None:
        """Move the estimates of the sampled nodes."""
        if not feedback.norm.any():
            return  # a dead layer says nothing of its nodes
        signal = log_size(feedback.norm)
        if feedback.attention.size:
            relative = bandits.relative_attention(
                feedback.indptr, feedback.row, feedback.prob, feedback.attention
            )
            signal = signal + bandits.node_attention(feedback.row, relative, feedback.src.size)
        rate = max(1 / (int(self._steps[layer]) + 1), self.config.memory)
        self._level[layer] += rate * (float(signal.mean()) - self._level[layer])
        self._steps[layer] += 1
        bandits.node_update(
            feedback.src,
            signal,
            float(self._level[layer]),
            self.config.memory,
            self.config.prior,
            self._arm[layer],
            self._code[layer],
        )

    def state_dict(self) -> State:
        """Arms and codes by layer; level and steps for all."""
        state: State = {"node.level": self._level, "node.steps": self._steps}
        for layer in range(self.layers):
            state[f"node.{layer}.arm"] = self._arm[layer]
            state[f"node.{layer}.code"] = self._code[layer]
        return state
