"""Scratch memory of one thread, allocated once so that a step does not cost O(|V|)."""

from __future__ import annotations

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.graph import Graph


class Workspace:
    """Scratch arrays for kernels. About 20 bytes per node, plus 16 per edge of the frontier.

    The operating system commits only the memory that a sampler writes to.
    """

    def __init__(self, graph: Graph) -> None:
        nodes, kind = graph.num_nodes, graph.indices.dtype
        self.seen: FloatArray = np.zeros(nodes, np.float32)  # all zero between layers
        self.bits: IntArray = np.zeros(nodes // 32 + 1, np.uint32)  # all zero between layers
        self.number: IntArray = np.zeros(nodes, kind)  # all zero between layers
        self.candidate: IntArray = np.empty(nodes + 1, kind)
        self.mass: FloatArray = np.empty(nodes, np.float32)
        self.position: IntArray = np.empty(nodes, kind)
        self.edge: IntArray = np.empty(1, np.int64)
        self._chance: FloatArray = np.empty(1, np.float64)

    def reserve_edges(self, count: int) -> None:
        """Make room for the kept edges of a frontier of `count` edges."""
        if self.edge.size <= count:
            self.edge = np.empty(count + count // 4 + 1, np.int64)

    def chances(self, count: int) -> FloatArray:
        """Uninitialised array with one number per edge of a frontier. float64[count]."""
        if self._chance.size < count:
            self._chance = np.empty(count + count // 4, np.float64)
        return self._chance[:count]
