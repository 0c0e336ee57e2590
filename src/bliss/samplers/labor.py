"""LABOR: neighbour sampling with one coin per source, shared by all targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph import Rows
from bliss.kernels import labor, nodewise
from bliss.kernels.coins import CoinKey
from bliss.policies.static import Static
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import LABORConfig
from bliss.samplers.nodewise import EdgeSampler, masses

_TOLERANCE = 1e-4  # converged: relative decrease of the expected number of sources below this
_MOST = 100


class LABOR(EdgeSampler):
    """Layer-neighbour sampling (Balin and Catalyurek, 2023).

    Poisson sampling with one coin per source: edge j -> i is kept if r_j <= p_ij =
    min(1, c_i pi_ij). All targets share the coin r_j, so they tend to keep the same sources. With
    k = `budgets[layer]`, a target with at most k in-edges keeps them all; for the others c_i is
    set by the paper's condition, in which d = |N_i|:

        sum_j alpha_ij^2 / p_ij = (sum_j alpha_ij)^2 (1 / k - 1 / d) + sum_j alpha_ij^2

    The left side minus sum_j alpha_ij^2 is the variance of the unbiased aggregate for uncorrelated
    messages of size 1. For the mean, the condition is sum_j 1 / p_ij = d^2 / k, the variance of k
    neighbours drawn uniformly without replacement.

    * ``iterations=0`` (LABOR-0): pi_ij = alpha_ij; for the mean, p_ij = min(1, k / d);
    * ``iterations=n`` (LABOR-n): n rounds of pi_ij = pi_j <- max_i c_i pi_ij, each of which lowers
      the expected number of sources;
    * ``iterations="converged"`` (LABOR-*): rounds until one lowers it by less than 0.01%.

    The rows of weights alpha_ij / p_ij are normalised, as in the reference implementation: the
    Hajek estimator. estimator="ht" leaves them as they are and is unbiased. Neither has the error
    of neighbour sampling if messages are correlated, because the number of kept edges of a target
    is random, k on average for LABOR-0 of the mean; it may be 0. experiments/estimates
    has measurements. Not adaptive, no state.

    Cost: LABOR-0 of the mean makes one pass over the frontier's edges, without random reads. With
    other coefficients it makes a few; each iteration adds two to four, with one random read per
    edge.

    `LABORConfig` has the options: iterations, shared (coins), estimator.
    """

    Config: ClassVar[type[SamplerConfig]] = LABORConfig
    config: LABORConfig

    def __init__(self, data: Any, budgets: Sequence[Any], **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self._coefficients = Static(self.graph, self.layers)
        if self.config.iterations != 0 and any(one is not None for one in self.divided):
            raise InputError(
                f"iterations={self.config.iterations!r} lower the sources of all relations "
                "together, which needs one fanout for all: pass one number, or iterations 0."
            )

    def _key(self, step: int, layer: int, shard: int = 0) -> CoinKey:
        return super()._key(step, 0 if self.config.shared else layer, shard)

    def _chances(self, rows: Rows, layer: int, fanout: int) -> FloatArray:
        workspace = self._workspace()
        frontier_indptr, edge = rows.edges()
        source, row = nodewise.relabel(rows.graph.indices, rows.dst, edge, workspace.number)
        rounds = _MOST if isinstance(self.config.iterations, str) else self.config.iterations
        tolerance = _TOLERANCE if isinstance(self.config.iterations, str) else 0.0
        alpha = NOTHING
        if self.graph.norm != "mean":
            alpha = masses(self._coefficients, layer, rows, workspace)
        chance: FloatArray = labor.labor_chances(
            frontier_indptr, row, source.size, alpha, fanout, rounds, tolerance
        )
        return chance

    def _keep(
        self, rows: Rows, layer: int, fanout: int, key: CoinKey
    ) -> tuple[IntArray, IntArray, FloatArray]:
        workspace = self._workspace()
        is_uniform = self.config.iterations == 0 and self.graph.norm == "mean"
        chance = NOTHING if is_uniform else self._chances(rows, layer, fanout)
        workspace.reserve_edges(rows.num_edges)
        edges = *rows.ranges, rows.degree, self.graph.indices
        return labor.pick_shared(*edges, chance, fanout, key, workspace.edge)
