"""What a policy is: it gives masses and takes feedback. It knows no model and no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.types import NO_CODES, EdgeMass, Feedback, NodeCodes

State = dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]


class Policy(ABC):
    """Says how much each source of a layer matters: s_j = b_j (g_j sum_i c_ij^2)^power.

    c_ij comes from `edge_mass`, g_j (what was learnt of a node) from `node_codes`, b_j (what the
    graph's coefficients owe to the source) is `source_factor`. Masses are needed up to a common
    factor only; the budget sets the scale.
    """

    name: ClassVar[str]
    learns: ClassVar[bool] = False
    power: ClassVar[float] = 0.5

    def __init__(self, graph: Graph, layers: int) -> None:
        self.graph = graph
        self.layers = layers

    @abstractmethod
    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """c_ij for the in-edges of the targets dst [D]."""

    def node_codes(self, layer: int) -> NodeCodes:
        """g_j, as a byte per node; by default 1 everywhere."""
        return NO_CODES

    def source_factor(self, layer: int) -> FloatArray:
        """b_j [V]; by default empty, where it is 1 for all."""
        return NOTHING

    def update(self, layer: int, feedback: Feedback) -> None:
        """Learn from one layer of one step; by default, nothing. O(len(feedback))."""
        return None

    def state_dict(self) -> State:
        """What was learnt, by name; the arrays themselves, not copies."""
        return {}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take over a saved state; refuses one of other names, shapes or types."""
        load_arrays(self.state_dict(), state, f"policy {self.name!r} with {self.layers} layers")


def load_arrays(own: State, state: Mapping[str, object], owner: str) -> None:
    """Fill the arrays `own` from a saved state; refuses one of other names, shapes or types."""
    if set(own) != set(state):
        raise InputError(
            f"the saved state has {sorted(state) or 'nothing'}, but {owner} keeps "
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
    """A policy whose c_ij are the graph's aggregation coefficients alpha_ij."""

    def __init__(self, graph: Graph, layers: int) -> None:
        super().__init__(graph, layers)
        # alpha_ij = a_i b_j: the square of b_j leaves the sum and meets its power
        self._source_factor = (graph.source_scale ** (2 * self.power)).astype(np.float32)
        largest = float(graph.weight.max(initial=0.0))
        self._weight_scale = 1 / largest if largest > 0 else 1.0

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """alpha_ij, up to a common factor and b_j."""
        zeros = np.zeros(dst.size)
        if self.graph.norm != "weights":
            return EdgeMass(self.graph.target_scale[dst], zeros, NOTHING)
        return EdgeMass(zeros, np.full(dst.size, self._weight_scale), self.graph.weight)

    def source_factor(self, layer: int) -> FloatArray:
        """b_j, to the power that it meets."""
        return self._source_factor
