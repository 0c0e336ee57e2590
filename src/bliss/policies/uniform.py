"""`uniform`: every candidate matters alike."""

from __future__ import annotations

import numpy as np

from bliss.arrays import NOTHING, IntArray
from bliss.policies.base import Policy
from bliss.types import EdgeMass


class Uniform(Policy):
    """s_j = 1. The baseline that knows nothing."""

    name = "uniform"
    power = 0.0

    def edge_mass(self, layer: int, dst: IntArray) -> EdgeMass:
        """Any positive number: power 0 makes it 1."""
        return EdgeMass(np.ones(dst.size), np.zeros(dst.size), NOTHING)
