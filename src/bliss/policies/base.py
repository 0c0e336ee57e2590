"""The interface of a policy, which sets masses and learns from feedback."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from bliss import checks
from bliss.arrays import NOTHING, Array, FloatArray, IntArray
from bliss.errors import InputError
from bliss.feedback import NO_CODES, EdgeMass, Feedback, News, NodeCodes
from bliss.graph import Graph
from bliss.policies.configs import PolicyConfig

State: TypeAlias = dict[str, Array]
RowSets: TypeAlias = dict[tuple[str, ...], IntArray]
"""Rows of state arrays, by the names of the arrays that they belong to."""


class Policy(ABC):
    """Mass of each source of a layer: s_j = b_j (g_j sum_i c_ij^2)^power.

    `edge_mass` gives c_ij, `node_codes` gives the learnt factor g_j, and `source_factor` gives the
    source factor b_j of the graph's coefficients. With histories, `age_factor` is a further factor
    of the mass. Only relative masses matter, because the budget sets the scale.

    Learning has two parts. `digest` turns the feedback of one layer into news. It only reads the
    state, and runs in the process that holds the blocks. `apply` takes the news of all shards of a
    step and changes the state. Processes that apply the same news in the same order have states
    that are equal bit for bit. A policy that `learns_from_surveys` also learns by `survey`, from a
    full pass of the network.
    """

    name: ClassVar[str]
    learns: ClassVar[bool] = False
    power: float = 0.5
    pairs_with: ClassVar[Sequence[str]] = ("sources", "neighbours")
    """Units of the samplers that the policy works with; see `SamplerConfig.unit`."""
    needs_prob: ClassVar[bool] = False
    """Whether learning divides by the inclusion probabilities of sources."""
    learns_from_surveys: ClassVar[bool] = False
    shares_state: ClassVar[bool] = False
    """Whether `apply` and `survey` change nothing but the arrays of `state_dict`, in place, and
    these are allocated by `bliss.storage.memory`. The processes of a machine then share them, and
    only one process calls `apply` and `survey`. A subclass does not inherit it, since it may change
    more."""

    def __init__(self, graph: Graph, layers: int, config: PolicyConfig | None = None) -> None:
        self.graph = graph
        self.layers = layers

    @abstractmethod
    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """c_ij for the in-edges of the targets dst [D]."""

    def node_codes(self, layer: int) -> NodeCodes:
        """g_j, one byte per node; by default 1 everywhere."""
        return NO_CODES

    def source_factor(self, layer: int) -> FloatArray:
        """b_j [V]; empty, the default, means 1 everywhere."""
        return NOTHING

    def age_factor(self, layer: int) -> FloatArray:
        """Factor of a mass by the age bin of the source's history, if there are histories.

        float32[AGE_BINS], see `kernels.histories.age_bin`; empty, the default, means 1 everywhere.
        """
        return NOTHING

    def digest(self, layer: int, feedback: Feedback) -> News:
        """Extract the news of one layer; the state does not change. O(len(feedback))."""
        return {}

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Learn from one step's news of a layer, one entry per shard."""
        return None

    def changed_rows(self, layer: int, news: Sequence[News]) -> RowSets | None:
        """Rows of the state that `apply` has just changed, or more; None, the default: any.

        Arrays with a row per node or edge that are not named have not changed. Other arrays may
        have.
        """
        return None if self.learns else {}

    def update(self, layer: int, feedback: Feedback) -> None:
        """Digest and apply the feedback of a single shard."""
        self.apply(layer, [self.digest(layer, feedback)])

    def survey(
        self, layer: int, norm: FloatArray, attention: npt.NDArray[np.uint8] | None = None
    ) -> None:
        """Learn the exact quantities of a layer at all nodes; by default nothing.

        norm       float32[V]  |h_j|
        attention  uint8[E]    alpha_ij as codes of `ATTENTION_TABLE`, or None
        """
        return None

    def _inclusion(self, feedback: Feedback) -> FloatArray:
        """p_j of the kept sources; raises an error if the block has none. [S]."""
        if feedback.prob is None:
            raise InputError(
                f"policy {self.name!r} divides by inclusion probabilities, but these blocks have "
                "none: update each sampler with the blocks that it drew."
            )
        return feedback.prob

    def state_dict(self) -> State:
        """Learnt arrays by name, without copying."""
        return {}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a saved state; raises an error for other names, shapes or types."""
        load_arrays(self.state_dict(), state, f"policy {self.name!r} with {self.layers} layers")


def load_arrays(own: State, state: Mapping[str, object], owner: str) -> None:
    """Fill the arrays `own` from a saved state with the same names, shapes and types."""
    if set(own) != set(state):
        raise InputError(
            f"the saved state has {sorted(state) or 'nothing'}, but {owner} needs "
            f"{sorted(own) or 'nothing'}: build the sampler with the settings it was saved with."
        )
    for name, array in own.items():
        given = checks.as_array(name, state[name])
        if given.shape != array.shape or given.dtype != array.dtype:
            raise InputError(
                f"the saved {name} is {given.dtype}{list(given.shape)}, but this graph needs "
                f"{array.dtype}{list(array.shape)}: build the sampler with the graph it was "
                "saved with."
            )
    for name, array in own.items():
        array[...] = checks.as_array(name, state[name])


class CoefficientPolicy(Policy):
    """Policy with the graph's aggregation coefficients as c_ij = alpha_ij."""

    def __init__(self, graph: Graph, layers: int, config: PolicyConfig | None = None) -> None:
        super().__init__(graph, layers)
        # alpha_ij = a_i b_j: b_j^2 is constant in the sum over i, so it becomes b_j^(2 power)
        self._source_factor = graph.source_factor(2 * self.power)
        largest = float(graph.weight.max(initial=0.0))
        self._weight_scale = 1 / largest if largest > 0 else 1.0

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """alpha_ij, up to a common factor and b_j."""
        zeros = np.zeros(dst.size)
        if self.graph.norm != "weights":
            return EdgeMass(self.graph.target_scale_of(dst), zeros, NOTHING)
        return EdgeMass(zeros, np.full(dst.size, self._weight_scale), self.graph.weight)

    def source_factor(self, layer: int) -> FloatArray:
        """b_j, raised to twice the policy's power."""
        return self._source_factor
