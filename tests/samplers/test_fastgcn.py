"""FastGCN draws from all nodes as published, misses as it must, and counts its misses."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import scipy.stats

from bliss import Graph, InputError
from bliss.samplers import FastGCN
from bliss.samplers.draws import Poisson
from tests.statistics import (
    Draws,
    coefficients,
    features,
    heavy_tailed_graph,
    normal_limit,
    repeat,
    square_sums,
    worst_z,
)

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each test that rolls dice
DST = np.array([0, 2, 5, 9, 14, 20, 30, 40])
BUDGET, TIMES = 40, 6000
VARIANTS = {  # mass, replace
    "published": ("squared", True),
    "by-norm": ("norm", True),
    "authors": ("norm", False),
}
variants = pytest.mark.parametrize("variant", VARIANTS)
# every norm, and both ways to draw
CASES = [("mean", "published"), ("weights", "published"), ("gcn", "authors")]


def shares(graph: Graph, variant: str) -> np.ndarray:
    """q_j from the definition. [V]."""
    square = square_sums(graph, np.arange(60))
    mass = square if VARIANTS[variant][0] == "squared" else np.sqrt(square)
    return mass / mass.sum()


def chances(graph: Graph, variant: str) -> np.ndarray:
    """1 - (1 - q_j)^k, or min(1, c q_j) with sum k, from the definition. [V]."""
    q = shares(graph, variant)
    if VARIANTS[variant][1]:
        return 1 - (1 - q) ** BUDGET
    prob = np.asarray(Poisson().probability(q, 0, BUDGET))
    assert prob.sum() == pytest.approx(BUDGET)
    np.testing.assert_allclose(np.ptp((prob / q)[prob < 1]), 0, atol=1e-9)
    return prob


def make(graph: Graph, variant: str) -> FastGCN:
    mass, replace = VARIANTS[variant]
    return FastGCN(graph, [BUDGET], mass=mass, replace=replace)


@lru_cache
def drawn(norm: str, variant: str) -> Draws:
    return repeat(make(heavy_tailed_graph(norm), variant), DST, TIMES)


def test_the_default_is_the_published_one():
    config = FastGCN(heavy_tailed_graph(), [BUDGET]).config
    assert (config.mass, config.replace) == VARIANTS["published"]


@variants
@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_chances_are_those_of_k_draws_by_column_norms(norm, variant):
    graph = heavy_tailed_graph(norm)
    sampler = make(graph, variant)
    candidate, prob = sampler.inclusion(DST, 0)
    assert (prob[: DST.size] == 1).all()
    others = slice(DST.size, None)
    np.testing.assert_allclose(prob[others], chances(graph, variant)[candidate[others]], rtol=1e-6)
    stated = dict(zip(candidate.tolist(), prob.tolist(), strict=True))
    for step in range(20):
        (block,) = sampler.sample(DST, step)
        np.testing.assert_allclose(block.prob, [stated[j] for j in block.src.tolist()], rtol=1e-6)


@variants
def test_each_layer_has_the_chances_of_its_own_budget(variant):
    mass, replace = VARIANTS[variant]
    sampler = FastGCN(heavy_tailed_graph(), [12, BUDGET], mass=mass, replace=replace)
    block = sampler.sample(DST, 0)[1]
    expected = chances(sampler.graph, variant)[block.src[DST.size :].numpy()]
    np.testing.assert_allclose(block.prob[DST.size :], expected, rtol=1e-6)


@pytest.mark.parametrize(("norm", "variant"), CASES)
@pytest.mark.parametrize("mutant", ["none", "2%-too-large", "times-drawn"])
def test_only_weights_of_the_true_chances_are_unbiased(norm, variant, mutant):
    draws = drawn(norm, variant)
    by_node = chances(draws.graph, variant)
    if mutant == "2%-too-large":
        by_node = 1.02 * by_node
    elif mutant == "times-drawn":  # k q_j counts a node drawn twice twice
        by_node = BUDGET * shares(draws.graph, variant)
    by_node[DST] = 1
    weight = coefficients(draws.graph)[draws.edge] / by_node[draws.graph.indices[draws.edge]]
    if mutant == "none":
        np.testing.assert_allclose(draws.weight, weight, rtol=1e-5)
    limit = normal_limit(FALSE_ALARM / len(CASES), features()[DST].size)
    assert (worst_z(draws, weight) < limit) == (mutant == "none")


@pytest.mark.parametrize(("norm", "variant"), [("mean", "published"), ("gcn", "authors")])
@pytest.mark.parametrize("overstated", [False, True])
def test_sources_are_kept_as_often_as_stated(overstated, norm, variant):
    draws = drawn(norm, variant)
    listened = np.unique(draws.graph.indices[np.isin(targets(draws.graph), DST)])
    open_ = np.setdiff1d(listened, DST)
    prob = chances(draws.graph, variant)[open_] * (1.1 if overstated else 1)
    law = scipy.stats.binom(TIMES, np.minimum(prob, 1))
    count = draws.kept[:, open_].sum(0)
    tail = 2 * open_.size * np.minimum(law.cdf(count), law.sf(count - 1)).min()
    assert (tail < FALSE_ALARM) == overstated
    assert not draws.kept[:, np.setdiff1d(np.arange(60), np.union1d(listened, DST))].any()


def targets(graph: Graph) -> np.ndarray:
    return np.repeat(np.arange(graph.num_nodes), graph.degree)


def test_targets_left_alone_are_counted():
    # A ring: each target has two neighbours besides itself, and few of 200 nodes are drawn.
    nodes = np.arange(200)
    pairs = np.concatenate([[nodes, (nodes + 1) % 200], [nodes, (nodes - 1) % 200]], axis=1)
    sampler = FastGCN(Graph.from_edge_index(pairs, 200), [5, 5])
    assert sampler.stats() == {"lonely": [0.0, 0.0]}
    alone, seen = np.zeros(2), np.zeros(2)
    for step in range(50):
        for layer, block in enumerate(sampler.sample([0, 10, 20, 30], step)):
            kept = np.bincount(block.col[block.src[block.row] != block.dst[block.col]].numpy())
            alone[layer] += block.num_dst - np.count_nonzero(kept)
            seen[layer] += block.num_dst
    np.testing.assert_allclose(sampler.stats()["lonely"], alone / seen)
    assert 0.8 < sampler.stats()["lonely"][1] < 1
    lonely = FastGCN(Graph.from_edge_index(np.zeros((2, 0), int), 4), [2])
    lonely.sample([0, 1], 0)
    assert lonely.stats() == {"lonely": [0.0]}  # nobody to miss


@pytest.mark.parametrize("replace", [True, False])
def test_a_budget_for_all_nodes_gives_the_full_neighbourhood(replace):
    graph = heavy_tailed_graph()
    (block,) = FastGCN(graph, [60], replace=replace).sample(DST, 0)
    assert block.num_edges == graph.degree[DST].sum()
    assert (block.prob == 1).all()
    np.testing.assert_allclose(block.edge_weight, coefficients(graph)[block.edge], rtol=1e-6)


def test_it_has_no_policy_to_choose(toy_graph):
    with pytest.raises(InputError, match="policy='static' is not an option of FastGCN"):
        FastGCN(toy_graph, [5], policy="static")
    for option in ({"estimator": "best"}, {"mass": "degree"}, {"replace": 1}):
        ((name, value),) = option.items()
        with pytest.raises(InputError, match=f"{name}={value!r}"):
            FastGCN(toy_graph, [5], **option)
