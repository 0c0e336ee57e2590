"""`uniform`: the same mass for every candidate."""

from __future__ import annotations

import numpy as np

from bliss.arrays import NOTHING, IntArray
from bliss.feedback import EdgeMass
from bliss.policies.base import Policy


class Uniform(Policy):
    """s_j = 1."""

    name = "uniform"
    power = 0.0

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """1 for every edge; power 0 makes every mass 1."""
        return EdgeMass(np.ones(dst.size), np.zeros(dst.size), NOTHING)
