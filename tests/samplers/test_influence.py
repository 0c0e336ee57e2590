"""Influence: masses weigh targets by what the layers above tell, and nothing becomes biased."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import LABOR, LADIES, PLADIES, SKETCH, Bliss, FastGCN, InputError, Neighbor
from bliss.rng import uniforms
from bliss.samplers import base
from tests.statistics import (
    coefficients,
    features,
    full_aggregate,
    heavy_tailed_graph,
    normal_limit,
    targets_of,
    weight_matrix,
)
from tests.twins import nodewise as twins
from tests.twins.layerwise import fit_scale

SEEDS = np.array([0, 5, 9, 14, 20, 30])
FALSE_ALARM = 1e-6  # chance that a correct sampler fails the z-tests of this file
TIMES = 3000


def influence_of(blocks, graph) -> list[np.ndarray]:
    """g_i^2 of the targets of each block, input layer first, from the definition."""
    squares = np.ones(blocks[-1].num_dst)
    by_layer = [squares]
    for block in blocks[:0:-1]:
        below = np.zeros(block.num_src)
        below[: block.num_dst] = squares
        weight = block.edge_weight.double().numpy() ** 2
        np.add.at(below, block.row.numpy(), weight * squares[block.col.numpy()])
        by_layer.append(squares := below)
    return by_layer[::-1]


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
@pytest.mark.parametrize("kind", ["none", "prior"])
def test_masses_are_their_formula(norm, kind):
    graph, budgets = heavy_tailed_graph(norm), (24, 20, 12)
    blocks = PLADIES(graph, budgets, influence=kind).sample(SEEDS, 3)
    alpha, target = coefficients(graph), targets_of(graph)
    for block, squares, budget in zip(blocks, influence_of(blocks, graph), budgets, strict=True):
        dst = block.dst.numpy()
        weight = np.zeros(graph.num_nodes)
        weight[dst] = squares if kind == "prior" else 1.0
        into = np.isin(target, dst)
        sums = np.bincount(graph.indices[into], (alpha**2 * weight[target])[into], 60)
        candidate = np.union1d(dst, graph.indices[into])
        mass = np.sqrt(sums[candidate])
        assert candidate.size > budget
        prob = np.ones(60)
        prob[candidate] = np.minimum(mass * fit_scale(mass, budget), 1)
        prob[dst] = 1.0
        np.testing.assert_allclose(block.prob, prob[block.src], rtol=1e-4)


def outputs(sampler, times: int, changed=lambda block: block.edge_weight) -> np.ndarray:
    """Two linear layers over many draws, with the weights of the input layer changed. [N, D, F]."""
    x, found = torch.from_numpy(features()), []
    for step in range(times):
        below, above = sampler.sample(SEEDS, step)
        hidden = torch.zeros(below.num_dst, x.size(1), dtype=torch.float64)
        messages = changed(below).double()[:, None] * x[below.src[below.row]]
        hidden.index_add_(0, below.col, messages)
        found.append((weight_matrix(above).double() @ hidden).numpy())
    return np.stack(found)


def worst_z(samples: np.ndarray, graph) -> float:
    everyone = np.arange(60)
    exact = full_aggregate(graph, everyone, full_aggregate(graph, everyone, features()))[SEEDS]
    error = samples.std(0, ddof=1) / np.sqrt(len(samples)) + 2e-7 * np.abs(exact)
    return float(np.abs((samples.mean(0) - exact) / error).max())


LIMIT = normal_limit(FALSE_ALARM / 4, SEEDS.size * 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "budgets"),
    [
        (PLADIES, [30, 22]),
        (lambda *a, **k: LADIES(*a, estimator="ht", **k), [30, 22]),
        (SKETCH, [30, 22]),
        (Neighbor, [3, 3]),
    ],
)
def test_two_linear_layers_are_unbiased_and_so_is_their_gradient(kind, budgets):
    """The output is linear in the weights of both layers, so its mean is also the gradient's."""
    graph = heavy_tailed_graph()
    sampler = kind(graph, budgets, influence="prior")
    assert worst_z(outputs(sampler, TIMES), graph) < LIMIT
    without = outputs(sampler, TIMES // 3, lambda block: block.coefficient)  # no 1 / p
    assert worst_z(without, graph) > LIMIT


@pytest.mark.slow
def test_influence_that_looks_at_the_coins_of_its_own_layer_is_noticed(monkeypatch):
    graph, sampler = (
        heavy_tailed_graph(),
        PLADIES(heavy_tailed_graph(), [30, 22], influence="prior"),
    )
    true = base.of_sources

    def peeking(block, influence, **options):
        coins = uniforms(sampler._key(peeking.step, 0), graph.indices)  # of the layer below
        low = np.bincount(targets_of(graph), coins < 0.3, 60) / np.diff(graph.indptr)
        return true(block, influence, **options) * (1 + 50 * low[block.src.numpy()])

    def sample(seeds, step):
        peeking.step = step
        return PLADIES.sample(sampler, seeds, step)

    monkeypatch.setattr(base, "of_sources", peeking)
    monkeypatch.setattr(sampler, "sample", sample)
    assert worst_z(outputs(sampler, TIMES), graph) > LIMIT


def test_the_output_layer_and_what_has_no_layers_above_stay_as_they_are(toy_graph):
    ours, usual = (PLADIES(toy_graph, [20, 12], influence=kind) for kind in ("prior", "none"))
    one, other = ours.sample(SEEDS, 0), usual.sample(SEEDS, 0)
    assert torch.equal(one[1].edge_weight, other[1].edge_weight)
    assert not torch.equal(one[0].prob, other[0].prob[: one[0].num_src])
    seeds = np.arange(9)
    squares = np.linspace(0.1, 4, 9)
    even = ours.inclusion(seeds, 0).prob
    assert (ours.inclusion(seeds, 0, influence=squares).prob != even).any()
    assert np.array_equal(ours.inclusion(seeds, 0, influence=np.full(9, 3.0)).candidate,
                          ours.inclusion(seeds, 0).candidate)  # fmt: skip


@pytest.mark.parametrize("kind", [FastGCN, LABOR])
def test_samplers_without_it_refuse_it(toy_graph, kind):
    with pytest.raises(InputError, match="influence='prior' is not an option"):
        kind(toy_graph, [5, 5], influence="prior")


@pytest.mark.parametrize("options", [{}, {"policy": "static"}, {"replace": True}])
def test_targets_of_more_influence_keep_more_neighbours_and_a_layer_as_many(options):
    graph, budgets = heavy_tailed_graph(), (4, 3, 2)
    sampler = Neighbor(graph, budgets, influence="prior", **options)
    blocks = sampler.sample(SEEDS, 3)
    layers = zip(range(3), blocks, influence_of(blocks, graph), strict=True)
    for layer, block, squares in layers:
        degree, kept = graph.degree[block.dst.numpy()], np.diff(block.indptr)
        total = np.minimum(degree, budgets[layer]).sum()
        assert abs(kept.sum() - total) <= 1
        expected = twins.fit_fanouts(squares**0.25, degree, total)
        np.testing.assert_array_equal(kept, expected)
        prob = sampler.inclusion(block.dst, layer, influence=squares).prob
        sums = np.add.reduceat(prob, np.cumsum(degree) - degree)
        np.testing.assert_allclose(sums, kept, rtol=1e-6)


DEFAULTS = {  # only the library's own policy weighs targets, and not with a history
    "bliss": (Bliss, {}, True),
    "paper": (Bliss, {"policy": "exp3"}, False),
    "history": (Bliss, {"history": "nodes", "widths": (4, 8, 8)}, False),
    "history by choice": (
        Bliss,
        {"history": "nodes", "widths": (4, 8, 8), "influence": "prior"},
        True,
    ),
    "pladies": (PLADIES, {"policy": "node"}, False),
    "ladies": (LADIES, {}, False),
    "sketch": (SKETCH, {}, False),
    "neighbor": (Neighbor, {}, False),
}


@pytest.mark.parametrize("case", DEFAULTS)
def test_samplers_of_papers_keep_their_masses_by_default(toy_graph, case):
    kind, options, expected = DEFAULTS[case]
    x = torch.ones(toy_graph.num_nodes, 4)
    assert kind(toy_graph, [5, 5], x=x, **options).config.weighs_targets == expected


def test_names_are_checked(toy_graph):
    with pytest.raises(InputError, match="influence='learnt'"):
        Bliss(toy_graph, [5, 5], influence="learnt")


def test_attention_gives_each_target_weights_that_sum_to_one(toy_graph):
    (block,) = PLADIES(toy_graph, [12]).sample(SEEDS, 0)
    weight, row, col = block.edge_weight.double().numpy(), block.row.numpy(), block.col.numpy()
    sums = np.bincount(col, weight)
    assert not np.allclose(sums, 1)
    for has_attention in (False, True):
        shares = weight / sums[col] if has_attention else weight
        expected = np.bincount(row, shares**2, block.num_src)
        expected[: block.num_dst] += 1
        found = base.of_sources(block, has_attention=has_attention)
        np.testing.assert_allclose(found, expected / expected.mean(), rtol=1e-5)


def test_a_bandit_knows_attention_once_it_has_seen_it(toy_graph):
    sampler = Bliss(toy_graph, [20, 12])
    x = torch.ones(toy_graph.num_nodes, 4)
    for seen in (False, True):
        assert [sampler._has_attention(layer) for layer in range(2)] == [seen, seen]
        blocks = sampler.sample(SEEDS, 0)
        for block in blocks:
            block.observe(x[: block.num_src], torch.ones(block.num_edges) / 3)
        sampler.update(blocks)
