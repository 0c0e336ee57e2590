"""Neighbour sampling: every subset alike, the stated chances, and weights that follow them."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
import scipy.stats
import torch

from bliss import Graph, InputError
from bliss.nn.convs import GATv2Conv
from bliss.samplers import Neighbor
from tests.statistics import coefficients, heavy_tailed_graph, targets_of

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each test that rolls dice


def star(leaves: int) -> Graph:
    """Node 0 receives from 1 to leaves, and from itself."""
    pairs = np.stack([np.arange(1, leaves + 1), np.zeros(leaves, int)])
    return Graph.from_edge_index(pairs, leaves + 1)


@cache  # the mutants look at the same draws
def counted(leaves: int, fanout: int, replace: bool, times: int) -> dict[tuple[int, ...], int]:
    """How often node 0 kept each collection of edges."""
    sampler, found = Neighbor(star(leaves), [fanout], replace=replace), dict[tuple[int, ...], int]()
    for step in range(times):
        (block,) = sampler.sample([0], step)
        kept = tuple(sorted(block.edge.tolist()))
        found[kept] = found.get(kept, 0) + 1
    return found


def chi_square_tail(counts: np.ndarray, expected: np.ndarray) -> float:
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(scipy.stats.chi2.sf(statistic, counts.size - 1))


@pytest.mark.parametrize(("leaves", "fanout"), [(4, 2), (5, 3), (6, 1), (5, 5)])
@pytest.mark.parametrize("mutant", [False, True])
def test_all_subsets_are_equally_likely(leaves, fanout, mutant):
    times = 6000
    found = counted(leaves, fanout, False, times)
    subsets = list(combinations(range(leaves + 1), fanout))
    assert set(found) <= set(subsets)
    assert len(subsets) == comb(leaves + 1, fanout)
    counts = np.array([found.get(subset, 0) for subset in subsets])
    expected = np.full(counts.size, times / counts.size)
    if mutant:  # a sampler that favours the first edge by a quarter
        expected = expected * [1.25 if 0 in subset else 1.0 for subset in subsets]
        expected *= times / expected.sum()
    assert (chi_square_tail(counts, expected) < FALSE_ALARM) == mutant


@pytest.mark.parametrize("mutant", [False, True])
def test_draws_with_replacement_are_independent(mutant):
    times = 6000
    found = counted(3, 2, True, times)
    pairs: dict[tuple[int, ...], float] = {}
    for pair in product(range(4), repeat=2):
        key = tuple(sorted(pair))
        pairs[key] = pairs.get(key, 0.0) + times / 16
    if mutant:  # as if distinct
        pairs = {pair: times / 6 if pair[0] != pair[1] else 1.0 for pair in pairs}
    counts = np.array([found.get(pair, 0) for pair in pairs])
    assert (chi_square_tail(counts, np.array(list(pairs.values()))) < FALSE_ALARM) == mutant


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("policy", ["uniform", "static"])
@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_chances_are_their_formulas(norm, policy, replace):
    graph, fanout = heavy_tailed_graph(norm), 6
    sampler = Neighbor(graph, [fanout], policy=policy, replace=replace)
    dst = np.array([0, 2, 9, 40, 55])
    edge, prob = sampler.inclusion(dst, 0)
    for i in dst:
        chance = prob[targets_of(graph)[edge] == i]
        mass = coefficients(graph)[edge[targets_of(graph)[edge] == i]]
        mass = np.ones_like(mass) if policy == "uniform" else mass
        if mass.size <= fanout:
            assert (chance == 1).all()
            continue
        assert chance.sum() == pytest.approx(fanout)
        if replace:
            np.testing.assert_allclose(chance, fanout * mass / mass.sum(), rtol=1e-6)
        else:
            assert (chance <= 1).all()
            open_ = chance < 1
            ratio = chance[open_] / mass[open_]
            np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
            assert (mass[~open_] * ratio[0] >= 1 - 1e-6).all()


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("policy", ["uniform", "static"])
def test_blocks_state_the_chances_and_weigh_by_them(policy, replace):
    graph, fanout = heavy_tailed_graph("weights"), 6
    sampler = Neighbor(graph, [fanout], policy=policy, replace=replace)
    dst = np.arange(0, 60, 3)
    stated = dict(zip(*(column.tolist() for column in sampler.inclusion(dst, 0)), strict=True))
    for step in range(10):
        (block,) = sampler.sample(dst, step)
        expected = np.array([stated[e] for e in block.edge.tolist()])
        np.testing.assert_allclose(block.edge_prob.numpy(), expected, rtol=1e-6)
        alpha = coefficients(graph)[block.edge.numpy()]
        np.testing.assert_allclose(block.edge_weight.numpy(), alpha / expected, rtol=1e-5)
        kept = block.indptr.diff().numpy()
        np.testing.assert_array_equal(kept, np.minimum(graph.degree[dst], fanout))
        assert replace or block.edge.unique().numel() == block.num_edges


def test_hajek_weights_are_the_mean_over_the_kept():
    graph = heavy_tailed_graph()
    ht, hajek = (
        Neighbor(graph, [5], estimator=name).sample(np.arange(20), 0)[0] for name in ("ht", "hajek")
    )
    torch.testing.assert_close(ht.edge_weight, hajek.edge_weight)
    torch.testing.assert_close(ht.edge_weight, 1 / ht.indptr.diff()[ht.col].float())


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("correction", ["hajek", "plain"])
def test_attention_is_corrected_by_the_chance_of_the_edge(correction, replace):
    # Where all scores are the same, attention over the kept edges is 1 / p_ij over its sum.
    graph = heavy_tailed_graph("weights")
    block = Neighbor(graph, [6], policy="static", replace=replace).sample(np.arange(20), 0)[0]
    conv = GATv2Conv(4, 4, correction=correction)
    torch.nn.init.zeros_(conv.vector)
    x = torch.randn(block.num_src, 4, generator=torch.Generator().manual_seed(0))
    out = conv(x, block)
    raw = 1 / block.edge_prob if correction == "hajek" else torch.ones(block.num_edges)
    share = raw / torch.zeros(20).index_add(0, block.col, raw)[block.col]
    expected = torch.zeros(20, 4).index_add(
        0, block.col, share[:, None] * conv.source(x)[block.row]
    )
    torch.testing.assert_close(out, expected)
    plain = 1 / block.indptr.diff()[block.col]  # feedback is the softmax without correction
    torch.testing.assert_close(block.observation.attention, plain)


def test_cost_of_a_hub_is_that_of_its_fanout():
    graph = star(5000)
    (block,) = Neighbor(graph, [10]).sample([0], 0)
    assert (block.num_edges, block.num_src) in {(10, 10), (10, 11)}


REFUSED = {
    "unknown policy": ({"policy": "exp3"}, "policy='exp3'"),
    "unknown estimator": ({"estimator": "sketch"}, "estimator='sketch'"),
    "replace not a flag": ({"replace": "no"}, "replace='no'"),
    "unknown option": ({"eta": 0.1}, "eta=0.1 is not an option"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_get_one_sentence(case, toy_graph):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        Neighbor(toy_graph, [5], **options)
