"""AS-GCN's masses are its formula, its gradient that of the variance, and it learns."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import Graph, InputError
from bliss.samplers import ASGCN
from bliss.samplers.draws import Poisson
from tests.statistics import (
    Draws,
    coefficients,
    features,
    heavy_tailed_graph,
    normal_limit,
    repeat,
    square_sums,
    targets_of,
    train,
    worst_z,
)

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each test that rolls dice
DST = np.array([0, 2, 5, 9, 14, 20, 30, 40])
BUDGET = 30
LENGTH = np.random.default_rng(1).lognormal(0, 1, 60)
X = np.stack([LENGTH, np.ones(60), np.random.default_rng(2).normal(size=60)], axis=1)


def taught(norm: str = "mean", steps: int = 300) -> ASGCN:
    sampler = ASGCN(heavy_tailed_graph(norm), [BUDGET], x=X.astype(np.float32))
    train(sampler, DST, LENGTH[:, None], steps)
    return sampler


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_masses_are_the_formula(norm):
    sampler = taught(norm, steps=40)
    graph, eta = sampler.graph, sampler.policy.config.eta
    candidate, prob = sampler.inclusion(DST, 0)
    among = np.isin(targets_of(graph), DST)
    sums = np.bincount(graph.indices, among * coefficients(graph), minlength=60)
    weight = sampler.policy.state_dict()["linear.weight"][0]
    size = (1 - eta) * np.abs(X @ weight[:-1] + weight[-1]) + eta
    assert np.ptp(size) > 0.1
    mass = (sums * size)[candidate].astype(np.float32)
    expected = Poisson().probability(mass, DST.size, BUDGET)
    np.testing.assert_allclose(prob, expected, rtol=1e-4)


@pytest.mark.parametrize("mutant", ["none", "not-centred", "cost-over-p"])
def test_gradient_is_that_of_the_variance_at_a_fixed_number_of_sources(mutant):
    random = np.random.default_rng(0)
    nodes = 60_000  # so many that sums over the kept are close to their expectations
    x = random.uniform(-1, 1, size=(nodes, 3)).astype(np.float32)
    attached = random.uniform(0.5, 1.5, nodes)  # sum_i alpha_ij
    cost = random.uniform(0.5, 1.5, nodes) * (2 + x[:, 0] + x[:, 1]) ** 4
    graph = Graph.from_edge_index(np.zeros((2, 0), int), nodes)
    policy = ASGCN(graph, [5], x=x).policy
    weight = policy.state_dict()["linear.weight"][0]
    weight[:] = [0.3, -0.2, 0.1, 1.0]

    def chances(parameters: np.ndarray) -> np.ndarray:
        eta = policy.config.eta
        inner = x @ parameters[:-1] + parameters[-1]
        mass = attached * ((1 - eta) * np.abs(inner) + eta)
        return mass * (0.3 * nodes / mass.sum())  # none near 1

    def log_variance(parameters: np.ndarray) -> float:
        return float(np.log((cost / chances(parameters)).sum()))

    exact = np.empty(4)
    for f in range(4):
        step = np.zeros(4)
        step[f] = 1e-4
        exact[f] = (log_variance(weight + step) - log_variance(weight - step)) / 2e-4
    prob = chances(weight)
    assert prob.max() < 1
    kept = np.flatnonzero(random.random(nodes) < prob)
    used = cost[kept] * prob[kept] if mutant == "cost-over-p" else cost[kept]
    found = policy.gradient(0, kept, used, prob[kept])
    if mutant == "not-centred":
        inner = x[kept] @ weight[:-1] + weight[-1]
        slope = 0.9 * np.sign(inner) / (0.9 * np.abs(inner) + 0.1) / kept.size
        found = found - np.append(slope @ x[kept], slope.sum())
    # the estimate's standard error is below a fiftieth of the gradient's length
    off = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert (off < 0.1) == (mutant == "none")


def variance(sampler: ASGCN) -> float:
    candidate, prob = sampler.inclusion(DST, 0)
    cost = (LENGTH**2 * square_sums(sampler.graph, DST))[candidate]
    return float(((1 / prob - 1) * cost)[DST.size :].sum())


def test_it_learns_to_draw_with_less_variance():
    untaught = ASGCN(heavy_tailed_graph(), [BUDGET], x=X.astype(np.float32))
    assert variance(taught()) < 0.7 * variance(untaught)


@lru_cache
def drawn(norm: str) -> tuple[ASGCN, Draws]:
    sampler = taught(norm)
    assert sampler.inclusion(DST, 0).prob.min() > 0.02
    return sampler, repeat(sampler, DST, 12_000)


@pytest.mark.parametrize("norm", ["mean", "weights"])
@pytest.mark.parametrize("mutant", [False, True])
def test_aggregates_are_unbiased_whatever_was_learnt(norm, mutant):
    sampler, draws = drawn(norm)
    weight = draws.weight
    if mutant:  # chances 2% too large
        candidate, prob = sampler.inclusion(DST, 0)
        by_node = np.ones(60)
        by_node[candidate] = np.where(prob < 1, 1.02 * prob, 1)
        weight = coefficients(draws.graph)[draws.edge] / by_node[draws.graph.indices[draws.edge]]
    limit = normal_limit(FALSE_ALARM / 2, features()[DST].size)
    assert (worst_z(draws, weight) > limit) == mutant


def test_features_are_those_of_the_data_by_default():
    data = Data(x=torch.ones(4, 2), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    assert ASGCN(data, [2]).sample([3], 0)[0].num_dst == 1


REFUSED = {
    "no features": ({}, "x is missing"),
    "features of other nodes": ({"x": np.ones((3, 2))}, r"x is float64 of shape \(3, 2\)"),
    "features with holes": ({"x": np.full((60, 2), np.nan)}, "x holds NaN"),
    "eta of zero": ({"x": X, "eta": 0.0}, "eta=0.0"),
    "rate of zero": ({"x": X, "rate": 0.0}, "rate=0.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_get_one_sentence(case, toy_graph):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        ASGCN(toy_graph, [5], **options)
