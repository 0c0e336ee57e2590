"""`static`: the best masses that depend only on the graph."""

from __future__ import annotations

from bliss.policies.base import CoefficientPolicy


class Static(CoefficientPolicy):
    """s_j = sqrt(sum_i alpha_ij^2) [eq:prob-sketch], used by SKETCH and PLADIES.

    These masses minimise the variance if all embeddings have the same norm.
    """

    name = "static"
    power = 0.5
