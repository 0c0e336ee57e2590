"""LABOR: neighbour sampling with one coin per source, shared by all targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.kernels import labor, nodewise
from bliss.policies.static import Static
from bliss.rng import derive_key
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import LABORConfig
from bliss.samplers.nodewise import EdgeSampler, masses

_TOLERANCE = 1e-4  # converged: relative decrease of the expected number of sources below this
_MOST = 100


class LABOR(EdgeSampler):
    """Layer-neighbour sampling (Balin and Catalyurek, 2023).

    Poisson sampling with one coin per source: edge j -> i is kept if r_j <= p_ij =
    min(1, c_i pi_j). All targets share the coin r_j, so they tend to keep the same sources. c_i is
    set so that the variance of the target's aggregate equals that of k = `budgets[layer]`
    neighbours drawn uniformly without replacement, for uncorrelated messages of equal size:

        sum_j alpha_ij^2 / p_ij = (|N_i| / k) sum_j alpha_ij^2

    * ``iterations=0`` (LABOR-0): pi_j = 1, so p_ij = min(1, k / |N_i|);
    * ``iterations=n`` (LABOR-n): n rounds of pi_j <- pi_j max_i c_i, each of which lowers the
      expected number of sources;
    * ``iterations="converged"`` (LABOR-*): rounds until one lowers it by less than 0.01%.

    Weights alpha_ij / p_ij: unbiased. With "hajek", on a small graph of heavy-tailed degrees at
    fanout 5, the bias of LABOR-1 is 0.009 of an aggregate's size, while its error falls from 0.34
    to 0.20. The number of kept edges of a target is random, k on average for LABOR-0; it may be 0.
    Not adaptive, no state. The paper states the condition for the mean; the condition above
    generalises it to other coefficients and is the same if they are equal.

    Cost: LABOR-0 makes one pass over the frontier's edges, without random reads; each iteration
    adds two to four passes, with one random read per edge.

    `LABORConfig` has the options: iterations, shared (coins), estimator.
    """

    Config: ClassVar[type[SamplerConfig]] = LABORConfig
    config: LABORConfig

    def __init__(self, data: Any, budgets: Sequence[int], **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self._coefficients = Static(self.graph, self.layers)

    def _key(self, step: int, layer: int) -> np.uint64:
        return derive_key(self.seed, step, 0 if self.config.shared else layer)

    def _chances(self, dst: IntArray, layer: int) -> FloatArray:
        graph, fanout = self.graph, self.budgets[layer]
        frontier_indptr, edge = nodewise.all_edges(graph.indptr, dst)
        source, row = nodewise.relabel(graph.indices, dst, edge, self._workspace().number)
        rounds = _MOST if isinstance(self.config.iterations, str) else self.config.iterations
        tolerance = _TOLERANCE if isinstance(self.config.iterations, str) else 0.0
        square = NOTHING
        if graph.norm != "mean":  # alpha_ij^2, up to a factor per row
            square = np.square(masses(self._coefficients, layer, dst, self._workspace()))
        chance: FloatArray = labor.labor_chances(
            frontier_indptr, row, source.size, square, fanout, rounds, tolerance
        )
        return chance

    def _keep(
        self, dst: IntArray, layer: int, key: np.uint64
    ) -> tuple[IntArray, IntArray, FloatArray]:
        graph, workspace, fanout = self.graph, self._workspace(), self.budgets[layer]
        chance = NOTHING if self.config.iterations == 0 else self._chances(dst, layer)
        workspace.reserve_edges(int(graph.degree[dst].sum()))
        return labor.pick_shared(
            graph.indptr, graph.indices, dst, chance, fanout, key, workspace.edge
        )
