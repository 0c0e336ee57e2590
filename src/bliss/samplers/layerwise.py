"""The layer-wise sampler: a policy, a draw and an estimator."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.errors import InputError
from bliss.kernels import frontier
from bliss.kernels.gathering import gather
from bliss.nn.block import Block
from bliss.samplers.config_base import EstimatorConfig, SamplerConfig
from bliss.samplers.configs import LayerSamplerConfig
from bliss.samplers.draws import Draw, Poisson
from bliss.samplers.estimators import coefficients, released_weights, rescale_hajek
from bliss.samplers.learned import PolicySampler
from bliss.samplers.workspace import Workspace


class Inclusion(NamedTuple):
    """The candidates of a layer and their inclusion probabilities."""

    candidate: IntArray  # int64[C] graph ids, targets first
    prob: FloatArray  # float64[C] p_j


class LayerSampler(PolicySampler):
    """Samples one set of sources for all targets of a layer, from the output layer down.

    The candidates for targets D are D and every source of an in-edge of D. The policy gives each
    candidate a mass s_j. The draw keeps about k = `budgets[layer]` of them, source j with
    probability p_j, and always the targets. The estimator sets the weights of the kept edges. With
    Horvitz-Thompson weights alpha_ij / p_j, for fixed inputs, the expected aggregate is the
    full-neighbour one.

    A step costs two passes over the frontier's edges. Budgets are the sources kept per layer on
    average, before the targets are added. `LayerSamplerConfig` has the options: policy, draw,
    estimator.
    """

    Config: ClassVar[type[SamplerConfig]] = LayerSamplerConfig
    config: EstimatorConfig

    def __init__(self, data: Any, budgets: Sequence[int], **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self.draw = self._make_draw()
        if not self.draw.has_probability:
            self._check_without_probability()

    def _make_draw(self) -> Draw:
        given: Draw | None = getattr(self.config, "draw", None)
        return given or Poisson(getattr(self.config, "thinning", "exact"))

    def _check_without_probability(self) -> None:
        draw = type(self.draw).__name__
        if self.policy.needs_prob:
            raise InputError(
                f"policy {self.policy.name!r} divides by inclusion probabilities, but draw {draw} "
                f"of {type(self).__name__} has none: choose policy node or static, or another "
                "sampler."
            )
        if self.config.estimator == "released":
            raise InputError(
                f"estimator='released' divides by inclusion probabilities, but draw {draw} has "
                "none: choose another estimator or another draw."
            )

    def inclusion(self, dst: Any, layer: int) -> Inclusion:
        """Inclusion probabilities that `sample` would use for these targets."""
        targets: IntArray = checks.seeds(dst, self.graph.num_nodes)
        candidate, mass = self._masses(self._workspace(), targets, layer)
        prob = self.draw.probability(mass, targets.size, self.budgets[layer])
        return Inclusion(candidate.astype(np.int64), prob)

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        graph, workspace = self.graph, self._workspace()
        candidate, mass = self._masses(workspace, dst, layer)
        source, prob, correction = self.draw.keep(
            candidate, mass, dst.size, self.budgets[layer], key
        )
        kept = gather(
            graph.indptr,
            graph.indices,
            dst,
            source,
            workspace.bits,
            workspace.position,
            workspace.edge,
        )
        kept_indptr, row, edge = kept
        if self.config.estimator == "released":
            assert prob is not None
            mass_of_edges = self.policy.edge_mass(layer, dst)
            weight = released_weights(mass_of_edges, prob, kept_indptr, row, edge)
        else:
            weight = coefficients(graph, dst, source, *kept, correction)
            if self.config.estimator == "hajek":
                rescale_hajek(graph, dst, kept_indptr, weight)
        chance = (1 / correction).astype(np.float32) if prob is None else prob
        arrays = (source[: dst.size], source, kept_indptr, row, edge, chance[row], weight)
        return Block.from_arrays(*arrays, prob=prob, graph=graph)

    def _masses(
        self, workspace: Workspace, dst: IntArray, layer: int
    ) -> tuple[IntArray, FloatArray]:
        """Candidates int[C] and masses float32[C], both views of the workspace."""
        graph, policy = self.graph, self.policy
        try:
            count, edges = frontier.scan(
                graph.indptr,
                graph.indices,
                dst,
                *policy.edge_mass(layer, dst),
                workspace.seen,
                workspace.candidate,
            )
            candidate = workspace.candidate[:count]
            coded = policy.node_codes(layer)
            mass = workspace.mass[:count]
            frontier.collect_mass(candidate, workspace.seen, *coded, policy.power, mass)
        except BaseException:
            self._scratch = threading.local()  # an interrupted scan leaves `seen` non-zero
            raise
        workspace.reserve_edges(edges)
        factor = policy.source_factor(layer)
        if factor.size:
            frontier.scale_by_node(mass, candidate, factor)
        by_age = policy.age_factor(layer)
        if self.history and by_age.size:
            self.history.scale_by_age(layer, candidate, mass, by_age)
        return candidate, mass
