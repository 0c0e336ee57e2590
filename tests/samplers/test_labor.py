"""LABOR's chances meet its condition, and it needs fewer sources than neighbour sampling."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

from bliss import Graph, InputError
from bliss.samplers import LABOR, Neighbor
from tests.statistics import (
    coefficients,
    full_aggregate,
    heavy_tailed_graph,
    normal_limit,
    repeat,
    targets_of,
)

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each test that rolls dice
KINDS = (0, 1, 4, "converged")
DST = np.arange(0, 60, 2)
FANOUT = 5


def expected_sources(graph: Graph, edge: np.ndarray, prob: np.ndarray) -> float:
    """sum_j max_i p_ij: a shared coin keeps the source if it keeps any edge."""
    largest = np.zeros(graph.num_nodes)
    np.maximum.at(largest, graph.indices[edge], prob)
    return float(largest.sum())


def test_labor_0_keeps_an_edge_with_k_over_its_targets_degree():
    graph = heavy_tailed_graph()
    edge, prob = LABOR(graph, [FANOUT]).inclusion(DST, 0)
    degree = graph.degree[targets_of(graph)[edge]]
    np.testing.assert_allclose(prob, np.minimum(FANOUT / degree, 1), rtol=1e-9)


@pytest.mark.parametrize("norm", ["gcn", "weights"])
def test_labor_0_keeps_an_edge_in_proportion_to_its_coefficient(norm):
    graph = heavy_tailed_graph(norm)
    edge, prob = LABOR(graph, [FANOUT]).inclusion(DST, 0)
    alpha, clipped = coefficients(graph)[edge], 0
    for i in DST:
        own = targets_of(graph)[edge] == i
        open_ = own & (prob < 1)
        assert own.sum() > FANOUT or not open_.any()
        if open_.any():
            scale = prob[open_] / alpha[open_]  # c_i
            np.testing.assert_allclose(scale, scale[0], rtol=1e-6)
            certain = own & ~open_
            clipped += certain.sum()
            assert (alpha[certain] >= alpha[open_].max()).all()
    assert clipped > 0


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
@pytest.mark.parametrize("iterations", KINDS)
def test_every_target_meets_the_condition_of_the_paper(iterations, norm):
    # sum_j A^2 / p = (sum_j A)^2 (1 / k - 1 / d) + sum_j A^2, where d > k
    graph = heavy_tailed_graph(norm)
    edge, prob = LABOR(graph, [FANOUT], iterations=iterations).inclusion(DST, 0)
    alpha = coefficients(graph)[edge]
    apart = 0.0  # how far another condition, (d / k) sum_j A^2, would be
    for i in DST:
        own = targets_of(graph)[edge] == i
        degree, squares = own.sum(), (alpha[own] ** 2).sum()
        k = min(FANOUT, degree)
        allowed = alpha[own].sum() ** 2 * (1 / k - 1 / degree) + squares
        assert (alpha[own] ** 2 / prob[own]).sum() == pytest.approx(allowed, rel=1e-6)
        wrong = (alpha[own] ** 2 / np.minimum(1.02 * prob[own], 1)).sum()
        assert degree <= FANOUT or abs(wrong / allowed - 1) > 0.005
        apart = max(apart, squares * degree / k / allowed - 1)
    assert (apart > 0.03) == (norm != "mean")


def test_the_reference_normalises_rows_and_so_does_the_default():
    graph = heavy_tailed_graph("gcn")
    (block,) = LABOR(graph, [FANOUT], iterations=1).sample(DST, 0)
    sums = np.bincount(block.col.numpy(), block.edge_weight.numpy(), minlength=DST.size)
    full = np.bincount(targets_of(graph), coefficients(graph))[DST]
    kept = np.diff(block.indptr.numpy()) > 0
    np.testing.assert_allclose(sums[kept], full[kept], rtol=1e-5)
    (plain,) = LABOR(graph, [FANOUT], iterations=1, estimator="ht").sample(DST, 0)
    ratio = block.edge_weight.numpy() / plain.edge_weight.numpy()
    assert np.ptp(ratio) > 0.1


@pytest.mark.parametrize("overstated", [False, True])
def test_measured_variance_is_that_of_the_formula(overstated):
    graph, times, dst = heavy_tailed_graph(), 4000, DST[:6]
    x = np.random.default_rng(0).choice([-1.0, 1.0], size=(60, 20))  # all of one size
    draws = repeat(LABOR(graph, [FANOUT], iterations=1, estimator="ht"), dst, times)
    loss = np.square(draws.aggregate(draws.weight, x) - full_aggregate(graph, dst, x)).mean(2)
    assert (graph.degree[dst] > FANOUT).all()
    formula = (1 / FANOUT - 1 / graph.degree[dst]) * (1.1 if overstated else 1.0)
    z = (loss.mean(0) - formula) / (loss.std(0, ddof=1) / np.sqrt(times))
    assert (np.abs(z).max() > normal_limit(FALSE_ALARM, dst.size)) == overstated


def test_each_iteration_needs_fewer_sources():
    graph = heavy_tailed_graph()
    needed = [
        expected_sources(graph, *LABOR(graph, [FANOUT], iterations=n).inclusion(DST, 0))
        for n in (0, 1, 2, 4, "converged")
    ]
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(needed))
    assert needed[-1] < 0.9 * needed[0]


def test_a_source_is_kept_for_every_target_whose_chance_exceeds_its_coin():
    graph = heavy_tailed_graph()
    sampler = LABOR(graph, [FANOUT], iterations=1)
    edge, prob = sampler.inclusion(DST, 0)
    for step in range(20):
        kept = set(sampler.sample(DST, step)[0].edge.tolist())
        for j in range(60):
            own = graph.indices[edge] == j
            chances = prob[own]
            is_kept = np.array([e in kept for e in edge[own].tolist()])
            if is_kept.any() and not is_kept.all():
                assert chances[is_kept].min() > chances[~is_kept].max()


def test_shared_coins_keep_the_same_sources_in_all_layers():
    graph = heavy_tailed_graph()
    found = {}
    for shared in (False, True):
        sampler = LABOR(graph, [FANOUT, FANOUT], shared=shared)
        found[shared] = np.mean([sampler.sample(DST[:4], s)[0].num_src for s in range(400)])
    assert found[True] < found[False]


def test_flickr_needs_fewer_sources_than_neighbour_sampling(data_root):
    graph = Graph.from_scipy(scipy.sparse.load_npz(data_root / "Flickr/raw/adj_full.npz"))
    fanouts, seeds = [10, 10, 10], np.random.default_rng(0).permutation(graph.num_nodes)[:1000]
    needed = {
        name: np.mean([sampler.sample(seeds, step)[0].num_src for step in range(3)])
        for name, sampler in {
            "neighbor": Neighbor(graph, fanouts),
            "0": LABOR(graph, fanouts),
            "1": LABOR(graph, fanouts, iterations=1),
            "*": LABOR(graph, fanouts, iterations="converged"),
        }.items()
    }
    assert needed["*"] < needed["1"] < needed["0"] < 0.9 * needed["neighbor"]


REFUSED = {
    "negative iterations": ({"iterations": -1}, "iterations=-1"),
    "unknown iterations": ({"iterations": "many"}, "iterations='many'"),
    "shared not a flag": ({"shared": 1}, "shared=1"),
    "unknown estimator": ({"estimator": "sketch"}, "estimator='sketch'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_get_one_sentence(case, toy_graph):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        LABOR(toy_graph, [5], **options)
