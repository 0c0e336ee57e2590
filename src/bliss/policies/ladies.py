"""`ladies`: sums of squared coefficients, as in LADIES."""

from __future__ import annotations

from bliss.policies.base import CoefficientPolicy


class Ladies(CoefficientPolicy):
    """s_j = sum_i alpha_ij^2 [eq:prob-ladies]."""

    name = "ladies"
    power = 1.0
