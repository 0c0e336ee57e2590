"""Aggregates of the samplers that keep edges, or sources in ways of their own, are unbiased."""

from __future__ import annotations

import numpy as np
import pytest

from bliss.samplers import sampler_config
from tests.statistics import (
    Draws,
    coefficients,
    features,
    heavy_tailed_graph,
    normal_limit,
    repeat,
    train,
    worst_z,
)

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that correct samplers fail in this file, all cases together
TIMES = 6000
TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])  # 41 to 3 in-edges; some feed one another

# One case of each way to draw, fixed and learnt, and of each norm. Weights and probabilities of the
# others are compared with their formulas in `test_every`, `test_neighbor` and `test_labor`.
CASES = {
    "neighbor": ("neighbor", {}, "mean"),
    "neighbor-replacing": ("neighbor", {"replace": True}, "mean"),
    "neighbor-static": ("neighbor", {"policy": "static"}, "weights"),
    "neighbor-static-replacing": ("neighbor", {"policy": "static", "replace": True}, "gcn"),
    "labor-0": ("labor", {"estimator": "ht"}, "mean"),
    "labor-1-weights": ("labor-1", {"estimator": "ht", "shared": True}, "weights"),
    "gcn-bs": ("gcn-bs", {}, "mean"),
    "gcn-bs-single": ("gcn-bs", {"policy": "exp3-single"}, "mean"),
}
FANOUT = 5
LIMIT = normal_limit(FALSE_ALARM / len(CASES), features()[TARGETS].size)


@pytest.fixture(scope="module", params=CASES)  # all tests of a case follow one another
def drawn(request) -> tuple[str, Draws, np.ndarray]:
    """A case, its draws, and the chance of each edge."""
    name, options, norm = CASES[request.param]
    graph = heavy_tailed_graph(norm)
    sampler = sampler_config(name, **options).build(graph, [FANOUT])
    if sampler.learns:
        untaught = sampler.inclusion(TARGETS, 0).prob
        train(sampler, TARGETS, 4 * features()[:, 1:2], steps=60)
        change = sampler.inclusion(TARGETS, 0).prob / untaught
        assert change.max() > 1.3 * change.min()  # what is measured has learnt something
    draws = repeat(sampler, TARGETS, TIMES)
    edge, prob = sampler.inclusion(TARGETS, 0)
    assert prob.min() > 0.02  # rarer edges would leave means too far from normal
    by_edge = np.zeros(graph.num_edges)
    by_edge[edge] = prob
    return request.param, draws, by_edge


@pytest.mark.parametrize("mutant", ["none", "2%-too-large", "as-if-certain"])
def test_only_weights_of_the_true_chances_are_unbiased(drawn, mutant):
    _, draws, by_edge = drawn
    weight = draws.weight
    if mutant == "2%-too-large":
        chance = by_edge[draws.edge]
        weight = weight * np.where(chance == 1, 1, 1 / 1.02)
    elif mutant == "as-if-certain":
        weight = coefficients(draws.graph)[draws.edge]
    assert (worst_z(draws, weight) < LIMIT) == (mutant == "none")


def test_edges_are_kept_as_often_as_stated(drawn):
    case, draws, by_edge = drawn
    count = np.bincount(draws.edge, minlength=by_edge.size)
    certain = by_edge == 1
    assert (count[certain] == TIMES).all()
    assert (count[by_edge == 0] == 0).all()
    # a count's variance is at most N times the largest number of times in a draw times p
    options = CASES[case][1]
    is_replacing = options.get("replace") or options.get("policy") == "exp3-single"
    most = FANOUT if is_replacing else 1
    open_ = (by_edge > 0) & ~certain
    error = np.sqrt(TIMES * most * by_edge[open_])
    limit = normal_limit(FALSE_ALARM, int(open_.sum()))
    assert (np.abs(count[open_] - TIMES * by_edge[open_]) < limit * error).all()
    assert (np.abs(count[open_] - 1.5 * TIMES * by_edge[open_]) > limit * error).any()
