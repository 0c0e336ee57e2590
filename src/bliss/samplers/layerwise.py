"""The layer-wise sampler: a policy, a draw and an estimator."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph import Cutoff, Rows
from bliss.kernels import frontier
from bliss.kernels.coins import CoinKey
from bliss.nn.block import Block
from bliss.samplers.config_base import EstimatorConfig, SamplerConfig
from bliss.samplers.configs import LayerSamplerConfig
from bliss.samplers.draws import Draw, Poisson
from bliss.samplers.estimators import Hajek, estimator_of
from bliss.samplers.influence import weighted
from bliss.samplers.kept import KeptEdges, distinct_targets
from bliss.samplers.policy_sampler import PolicySampler
from bliss.samplers.typed_budgets import DrawByType

WATCH_ONE_OF = 4
"""One of so many blocks, at random, measures the errors that a policy watches."""


class Inclusion(NamedTuple):
    """The candidates of a layer and their inclusion probabilities."""

    candidate: IntArray  # int64[C] graph ids, targets first
    prob: FloatArray  # float64[C] p_j


class LayerSampler(PolicySampler):
    """Samples one set of sources for all targets of a layer, from the output layer down.

    The candidates for targets D are D and every source of an in-edge of D. The policy gives each
    candidate a mass s_j. The draw keeps about k = `budgets[layer]` of them, source j with
    probability p_j, and always the targets. With times, a source sees no later than the earliest
    of the targets that it leads to; a target keeps its own time. The estimator sets the weights of
    the kept edges. With Horvitz-Thompson weights alpha_ij / p_j, for fixed inputs, the expected
    aggregate is the full-neighbour one.

    A step costs two passes over the frontier's edges. Budgets are the sources kept per layer on
    average, before the targets are added. `LayerSamplerConfig` has the options: policy, draw,
    estimator.
    """

    Config: ClassVar[type[SamplerConfig]] = LayerSamplerConfig
    config: EstimatorConfig
    divides_budgets = True

    def __init__(self, data: Any, budgets: Sequence[Any], **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self.draw = self._make_draw()
        self.estimator = estimator_of(self.config.estimator)
        if not self.draw.has_probability:
            self._check_without_probability()
        if self.config.lasting > 1 and not self.draw.has_node_coins:
            raise InputError(
                f"coin_steps={self.config.lasting} is not possible with draw "
                f"{type(self.draw).__name__}, which has no coin per node: choose draw Poisson or "
                "Successive, or coin_steps 1."
            )

    def _make_draw(self) -> Draw:
        config = self.config
        return (isinstance(config, LayerSamplerConfig) and config.draw) or Poisson()

    def _check_without_probability(self) -> None:
        draw = type(self.draw).__name__
        if self.policy.needs_prob:
            raise InputError(
                f"policy {self.policy.name!r} divides by inclusion probabilities, but draw {draw} "
                f"of {type(self).__name__} has none: choose policy node or static, or another "
                "sampler."
            )
        if self.estimator.needs_prob:
            raise InputError(
                f"estimator={self.estimator.name!r} divides by inclusion probabilities, but draw "
                f"{draw} has none: choose another estimator or another draw."
            )

    def inclusion(
        self,
        dst: Any,
        layer: int,
        influence: FloatArray = NOTHING,
        without: Any = None,
        cutoff: Cutoff | None = None,
    ) -> Inclusion:
        """Inclusion probabilities that `sample` would use for these targets.

        `influence` is that of each target, g_i^2 [D]; empty: 1 everywhere, as for seeds. `without`
        are ids of edges that they do not see [H]. With a `cutoff` [D], targets may be repeated at
        several times; each is then one candidate.
        """
        nodes: IntArray = checks.seeds(dst, self.graph.num_nodes, distinct=cutoff is None)
        rows = replace(self.graph.rows(nodes, without, cutoff), influence=influence)
        targets, _ = distinct_targets(rows, self._workspace())
        candidate, mass = self._masses(rows, layer, targets)
        budgets, types = self.divided[layer], self.graph.types
        if budgets is not None and types is not None:
            draw = DrawByType(self.draw, types, budgets)
            prob = draw.probability(candidate, mass, targets.size)
        else:
            prob = self.draw.probability(mass, targets.size, self.budgets[layer])
        return Inclusion(candidate.astype(np.int64), prob)

    def _layer(self, rows: Rows, layer: int, key: CoinKey) -> Block:
        targets, place = distinct_targets(rows, self._workspace())
        candidate, mass = self._masses(rows, layer, targets)
        budgets, types = self.divided[layer], self.graph.types
        if budgets is not None and types is not None:
            by_type = DrawByType(self.draw, types, budgets)
            source, prob, correction = by_type.keep(candidate, mass, targets.size, key)
        else:
            source, prob, correction = self.draw.keep(
                candidate, mass, targets.size, self.budgets[layer], key
            )
        kept = KeptEdges.of_sources(rows, source, self._workspace())
        chance = (1 / correction).astype(np.float32) if prob is None else prob
        kept = kept._replace(edge_prob=chance[kept.row], correction=correction, prob=prob)
        if self.estimator.needs_prob:
            kept = kept._replace(edge_mass=self.policy.edge_mass(layer, rows))
        block = kept.with_times(place).block(self.estimator)
        is_watched = self.policy.watches_errors and int(key.step) % WATCH_ONE_OF == 0
        if is_watched and prob is not None:
            centred = self.estimator.name == Hajek.name
            block = replace(block, watch="centred" if centred else "whole")
        return block

    def _masses(self, rows: Rows, layer: int, targets: IntArray) -> tuple[IntArray, FloatArray]:
        """Candidates int[C] and masses float32[C], both views of the workspace.

        targets  int64[U]  distinct targets, which come first among the candidates
        """
        policy, workspace = self.policy, self._workspace()
        try:
            count = frontier.scan(
                *rows.ranges,
                self.graph.indices,
                targets,
                *weighted(policy.edge_mass(layer, rows), rows),
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
        factor = rows.source_factor(policy.source_power(layer))
        if factor[0].size:
            frontier.scale_by_node(mass, candidate, *factor)
        if policy.has_node_factor:
            mass *= policy.node_factor(layer, candidate)
        by_age = policy.age_factor(layer)
        if self.history and by_age.size:
            self.history.scale_by_age(layer, candidate, mass, by_age)
        return candidate, mass
