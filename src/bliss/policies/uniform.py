"""`uniform`: the same mass for every candidate."""

from __future__ import annotations

import numpy as np

from bliss.arrays import NOTHING
from bliss.feedback import EdgeMass
from bliss.graph import Rows
from bliss.policies.base import Policy


class Uniform(Policy):
    """s_j = 1."""

    name = "uniform"
    power = 0.0

    def edge_mass(self, layer: int, rows: Rows) -> EdgeMass:
        """1 for every edge; power 0 makes every mass 1."""
        groups = rows.degree.size
        return EdgeMass(np.ones(groups), np.zeros(groups), NOTHING)
