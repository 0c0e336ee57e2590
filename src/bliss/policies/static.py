"""`static`: the best masses that know the graph but not the embeddings."""

from __future__ import annotations

from bliss.policies.base import CoefficientPolicy


class Static(CoefficientPolicy):
    """s_j = sqrt(sum_i alpha_ij^2) [eq:prob-sketch], used by SKETCH and PLADIES.

    It is the optimum of the variance if all embeddings have the same length.
    """

    name = "static"
    power = 0.5
