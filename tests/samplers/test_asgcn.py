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

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each test that rolls dice
DST = np.array([0, 2, 5, 9, 14, 20, 30, 40])
BUDGET = 30
LENGTH = np.random.default_rng(1).lognormal(0, 1, 60)
X = np.stack([LENGTH, np.ones(60), np.random.default_rng(2).normal(size=60)], axis=1)


def taught(norm: str = "mean", steps: int = 300, **options) -> ASGCN:
    sampler = ASGCN(heavy_tailed_graph(norm), [BUDGET], x=X.astype(np.float32), **options)
    train(sampler, DST, LENGTH[:, None], steps)
    return sampler


@pytest.mark.parametrize("combine", ["sum", "root"])
@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_masses_are_the_formula(norm, combine):
    sampler = taught(norm, steps=40, combine=combine)
    graph, eta = sampler.graph, sampler.policy.config.eta
    candidate, prob = sampler.inclusion(DST, 0)
    among = np.isin(targets_of(graph), DST)
    sums = np.bincount(graph.indices, among * coefficients(graph), minlength=60)
    if combine == "root":
        sums = np.sqrt(square_sums(graph, DST))
    weight = sampler.policy.state_dict()["linear.weight"][0]
    size = (1 - eta) * np.abs(X @ weight[:-1] + weight[-1]) + eta
    assert np.ptp(size) > 0.1
    mass = (sums * size)[candidate].astype(np.float32)
    expected = Poisson().probability(mass, DST.size, BUDGET)
    np.testing.assert_allclose(prob, expected, rtol=1e-4)


def large_layer(norm: str, combine: str) -> tuple[ASGCN, np.ndarray, np.ndarray]:
    """A sampler of 3,000 nodes, 300 targets whose features differ from the others, and |h_j|."""
    random = np.random.default_rng(0)
    nodes, dst = 3000, np.arange(300)
    pairs = np.stack([random.integers(0, nodes, 9000), random.integers(0, 300, 9000)])
    weight = random.lognormal(0, 0.5, 9000) if norm == "weights" else None
    graph = Graph.from_edge_index(pairs, nodes, weight=weight, norm=norm)
    x = random.uniform(-1, 1, size=(nodes, 3)).astype(np.float32)
    x[dst, 1] += 1.0
    sampler = ASGCN(graph, [1000], x=x, combine=combine)
    sampler.policy.state_dict()["linear.weight"][0] = [0.3, -0.2, 0.1, 1.0]
    return sampler, dst, (2 + x[:, 0] + x[:, 1]) ** 2


@pytest.mark.parametrize(
    ("norm", "combine"), [("mean", "sum"), ("gcn", "sum"), ("weights", "sum"), ("mean", "root")]
)
@pytest.mark.parametrize("mutant", ["none", "without-targets", "targets-as-others", "cost-over-p"])
def test_every_component_of_the_gradient_is_its_finite_difference(norm, combine, mutant):
    # of log V at the sampler's budget, a part of which its targets use up
    sampler, dst, size = large_layer(norm, combine)
    policy, times = sampler.policy, 60
    weight = policy.state_dict()["linear.weight"][0]
    candidate, prob = sampler.inclusion(dst, 0)
    cost = (size**2 * square_sums(sampler.graph, dst))[candidate]
    open_ = prob < 1

    def log_variance(step: np.ndarray) -> float:
        weight[:] += step
        changed = sampler.inclusion(dst, 0).prob
        weight[:] -= step
        return float(np.log((cost / changed)[open_].sum()))

    width = 1e-3
    exact = np.array([log_variance(e) - log_variance(-e) for e in width * np.eye(4)]) / (2 * width)
    gradient = policy.gradient

    def mutated(layer, node, share, count):
        if mutant == "without-targets":
            count = np.where(share > 0, count, 0.0)
        elif mutant == "targets-as-others":
            count = np.ones(count.size)
        elif mutant == "cost-over-p":
            inside = dict(zip(candidate.tolist(), prob.tolist(), strict=True))
            share = share * np.array([inside[j] for j in node.tolist()])
        return gradient(layer, node, share, count)

    policy.gradient = mutated
    embedding = torch.from_numpy(size[:, None].astype(np.float32))
    found = np.empty((times, 4))
    for step in range(times):
        (block,) = sampler.sample(dst, step)
        block.observe(embedding[block.src])
        found[step] = policy.digest(0, block.feedback())["gradient"]
    error = found.std(0, ddof=1) / np.sqrt(times)
    # about 800 open sources are kept, so a ratio of sums is biased by about a thousandth
    limit = normal_limit(FALSE_ALARM / 4, 4) * error + 0.005 * np.abs(exact).max()
    assert (np.abs(found.mean(0) - exact) < limit).all() == (mutant == "none")
    assert (limit < 0.1 * np.abs(exact).max()).all()


def test_shared_parameters_are_learnt_from_all_layers():
    graph = heavy_tailed_graph()
    own, shared = (
        ASGCN(graph, [20, 20], x=X.astype(np.float32), shared_parameters=flag)
        for flag in (False, True)
    )
    for sampler in (own, shared):
        blocks = sampler.sample(DST, 0)
        for block in blocks:
            block.observe(torch.from_numpy(LENGTH[:, None].astype(np.float32))[block.src])
        sampler.update(blocks)
    assert own.state_dict()["linear.steps"].tolist() == [1, 1]
    assert shared.state_dict()["linear.steps"].tolist() == [2]
    for layer in (0, 1):
        np.testing.assert_array_equal(
            shared.policy.node_factor(layer, np.arange(60)),
            shared.policy.node_factor(0, np.arange(60)),
        )
    assert (
        own.policy.node_factor(0, np.arange(60)) != own.policy.node_factor(1, np.arange(60))
    ).any()


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
    "unknown masses": ({"x": X, "combine": "max"}, "combine='max'"),
    "sharing not a flag": ({"x": X, "shared_parameters": 1}, "shared_parameters=1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_get_one_sentence(case, toy_graph):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        ASGCN(toy_graph, [5], **options)
