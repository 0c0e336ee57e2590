"""The interface of a policy, which sets masses and learns from feedback."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.errors import InputError
from bliss.feedback import NO_CODES, EdgeMass, Feedback, NodeCodes
from bliss.graph import WEIGHTED, Graph, Rows
from bliss.policies.configs import PolicyConfig
from bliss.policies.learner import Learner

POWERS = (0.0, 0.5, 1.0)
"""Values of `Policy.power` that kernels support."""


class Policy(Learner):
    """Mass of each source of a layer: s_j = b_j^source_power (g_j sum_i c_ij^2)^power.

    `edge_mass` gives c_ij and `node_codes` gives the learnt factor g_j. b_j is the source factor of
    the graph's coefficients, 1 / sqrt(|N_j|) for norm="gcn" and 1 otherwise. With histories,
    `age_factor` is a further factor of the mass. Only relative masses matter, because the budget
    sets the scale. The sum runs over the edges that the targets may see (`bliss.graph.Rows`).
    """

    name: ClassVar[str]
    power: float = 0.5
    pairs_with: ClassVar[Sequence[str]] = ("sources", "neighbours")
    """Units of the samplers that the policy works with; see `SamplerConfig.unit`."""
    needs_prob: ClassVar[bool] = False
    """Whether learning divides by the inclusion probabilities of sources."""
    divides_rewards: ClassVar[bool] = False
    """Whether rewards are divided by probabilities, which assumes new coins in every step."""
    watches_errors: ClassVar[bool] = False
    """Whether the policy compares its masses with static ones by the errors of drawn blocks."""
    has_node_factor: ClassVar[bool] = False
    """Whether `node_factor` is a part of the mass."""

    def __init__(self, graph: Graph, layers: int, config: PolicyConfig | None = None) -> None:
        if self.power not in POWERS:
            raise InputError(
                f"power={self.power} of policy {self.name!r} is not 0, 0.5 or 1, the powers that "
                "masses are compiled for: choose one of them."
            )
        self.graph = graph
        self.layers = layers

    @property
    def title(self) -> str:
        """Name of this policy in messages."""
        return f"policy {self.name!r} with {self.layers} layers"

    @abstractmethod
    def edge_mass(self, layer: int, rows: Rows) -> EdgeMass:
        """c_ij for the edges that the targets may see."""

    def node_codes(self, layer: int) -> NodeCodes:
        """g_j, one byte per node; by default 1 everywhere."""
        return NO_CODES

    def has_attention(self, layer: int) -> bool:
        """Whether the policy has learnt that the network learns the coefficients of this layer."""
        return False

    def source_power(self, layer: int) -> float:
        """Power of the source factor b_j in the mass; 0, the default, leaves it out."""
        return 0.0

    def node_factor(self, layer: int, node: IntArray) -> FloatArray:
        """Further factor of the mass of some nodes, if the policy `has_node_factor`. [C]."""
        return np.ones(node.size, np.float32)

    def age_factor(self, layer: int) -> FloatArray:
        """Factor of a mass by the age bin of the source's history, if there are histories.

        float32[AGE_BINS], see `kernels.histories.age_bin`; empty, the default, means 1 everywhere.
        """
        return NOTHING

    def update(self, layer: int, feedback: Feedback) -> None:
        """Digest and apply the feedback of a single shard."""
        self.apply(layer, [self.digest(layer, feedback)])

    def _inclusion(self, feedback: Feedback) -> FloatArray:
        """p_j of the kept sources; raises an error if the block has none. [S]."""
        if feedback.prob is None:
            raise InputError(
                f"policy {self.name!r} divides by inclusion probabilities, but these blocks have "
                "none: update each sampler with the blocks that it drew."
            )
        return feedback.prob


class CoefficientPolicy(Policy):
    """Policy with the graph's aggregation coefficients as c_ij = alpha_ij."""

    def __init__(self, graph: Graph, layers: int, config: PolicyConfig | None = None) -> None:
        super().__init__(graph, layers)
        largest = float(graph.weight.max(initial=0.0))
        self._weight_scale = 1 / largest if largest > 0 else 1.0

    def edge_mass(self, layer: int, rows: Rows) -> EdgeMass:
        """alpha_ij, up to a common factor and b_j."""
        zeros = np.zeros(rows.degree.size)
        if self.graph.norm not in WEIGHTED:
            return EdgeMass(rows.target_scale, zeros, NOTHING)
        is_sum = self.graph.norm == "weights"
        slope = np.full(zeros.size, self._weight_scale) if is_sum else rows.target_scale
        return EdgeMass(zeros, slope, self.graph.weight)

    def source_power(self, layer: int) -> float:
        """Twice the policy's power: b_j^2 is constant in the sum over i of alpha_ij^2."""
        return 2 * self.power
