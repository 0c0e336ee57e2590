"""The guard finds out masses that are learnt from norms which say nothing about the error."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import PLADIES, Bliss, Graph
from bliss.nn.squared_errors import WATCHED
from bliss.policies.guard import LEAST_STEPS, Guard
from tests.statistics import weight_matrix

NODES, SEEDS = 600, np.arange(40)
FEW = SEEDS[:16]


def communities(seed: int = 0) -> tuple[Graph, torch.Tensor]:
    """Nodes of 12 communities without edges between them, and inputs that misled a bandit.

    The nodes of a community share one large vector, of very different size in each, which a mean
    with weights that sum to 1 reproduces exactly. What it misses is noise of equal size everywhere.
    """
    random = np.random.default_rng(seed)
    group = np.arange(NODES) % 12
    pairs = random.integers(0, NODES // 12, (2, 9000)) * 12 + random.integers(0, 12, 9000)
    common = 20 * random.normal(size=(12, 8)) * np.exp(random.normal(size=(12, 1)))
    x = common[group] + random.normal(size=(NODES, 8))
    graph = Graph.from_edge_index(pairs, NODES)
    return graph, torch.from_numpy(x.astype(np.float32))


def learnt(sampler: Bliss, x: torch.Tensor, steps: int = 80) -> Bliss:
    for step in range(steps):
        seeds = np.random.default_rng(step).permutation(NODES)[:40]
        blocks = sampler.sample(seeds, step)
        for block in blocks:
            block.observe(x[block.src])
        sampler.update(blocks)
    return sampler


def error(sampler: Bliss | PLADIES, x: torch.Tensor, draws: int = 200) -> float:
    """Mean squared error of aggregates, from the definition."""
    graph, total = sampler.graph, 0.0
    rows = [graph.indices[graph.indptr[i] : graph.indptr[i + 1]] for i in SEEDS]
    exact = torch.stack([x[torch.from_numpy(row.astype(np.int64))].mean(0) for row in rows])
    for step in range(draws):
        (block,) = sampler.sample(SEEDS, 10_000 + step)
        total += float((weight_matrix(block) @ x[block.src] - exact).square().sum())
    return total / draws


def test_layers_whose_norms_mislead_return_to_static_masses():
    graph, x = communities()
    sampler = learnt(Bliss(graph, [150], estimator="hajek"), x)
    static = PLADIES(graph, [150], estimator="hajek")
    assert sampler.policy._guard.prefers_static(0)
    np.testing.assert_allclose(
        sampler.inclusion(SEEDS, 0).prob, static.inclusion(SEEDS, 0).prob, rtol=1e-6
    )
    guarded = error(sampler, x)
    sampler.policy._guard.ratio[:] = -1  # the mutant: a bandit without a guard
    assert error(sampler, x) > 1.1 * guarded


def test_layers_whose_norms_tell_keep_learnt_masses():
    graph, x = communities()
    sampler = learnt(Bliss(graph, [60], estimator="ht"), x)  # misses what neighbours share
    assert not sampler.policy._guard.prefers_static(0)
    assert error(sampler, x) < 0.9 * error(PLADIES(graph, [60]), x)


@pytest.mark.parametrize("estimator", ["ht", "hajek"])
def test_the_ratio_is_that_of_both_errors(estimator):
    """The running ratio against closed forms at equal budgets, both without clipping.

    A step's ratio has a relative deviation of about 0.1; the mean of about 400 is within 5%.
    """
    graph, x = communities(1)
    assert FEW.size == WATCHED  # all targets are measured
    random = np.random.default_rng(3)
    factor = np.exp(random.normal(size=NODES))
    alpha = 1 / np.diff(graph.indptr)[FEW]
    edges = [np.arange(graph.indptr[i], graph.indptr[i + 1]) for i in FEW]
    squares = np.zeros(NODES)  # e_j
    for i, edge in enumerate(edges):
        j = graph.indices[edge]
        centre = x[j].double().mean(0) if estimator == "hajek" else 0.0
        np.add.at(squares, j, alpha[i] ** 2 * (x[j].double() - centre).square().sum(1).numpy())
    static = np.zeros(NODES)
    for i, edge in enumerate(edges):
        np.add.at(static, graph.indices[edge], alpha[i] ** 2)
    static = np.sqrt(static)
    others = np.setdiff1d(np.flatnonzero(static), FEW)
    c, f, e = static[others], factor[others], squares[others]
    expected = (c * f).sum() * (e / (c * f)).sum() / (c.sum() * (e / c).sum())
    sampler, ratios = PLADIES(graph, [60], estimator=estimator), []
    sampler.policy.watches_errors = True
    for step in range(1600):
        (block,) = sampler.sample(FEW, step)
        block.observe(x[block.src])
        seen = block.feedback()
        if seen.spread is None:
            continue
        own = factor[seen.src]
        is_open = (np.arange(seen.src.size) >= FEW.size) & (seen.prob < 1)
        ones = np.ones_like(own)
        rows = seen.row[seen.watched]
        ratios.append(Guard.sums(own, ones, is_open, rows, seen.spread))
    learnt_sum, learnt_error, static_sum, static_error = np.mean(ratios, axis=0)
    found = learnt_sum * learnt_error / (static_sum * static_error)
    assert found == pytest.approx(expected, rel=0.05 if estimator == "ht" else 0.1)
    mutant = learnt_sum / static_sum  # without the errors
    assert mutant != pytest.approx(expected, rel=0.2)


def test_few_steps_decide_nothing_and_shards_add_up():
    guard, sums = Guard(2), np.array([2.0, 3.0, 1.0, 1.0])
    for _ in range(LEAST_STEPS):
        assert not guard.prefers_static(1)
        guard.follow(1, [sums, sums])
        assert guard.ratio[1] == pytest.approx(np.log(6))
    assert guard.prefers_static(1) and not guard.prefers_static(0)
    guard.follow(0, [np.zeros(4)])
    assert guard.steps[0] == 0  # nothing was sampled


def test_a_guard_forgets_and_the_layer_learns_again():
    guard = Guard(1)
    for sums, steps in (([6.0, 1.0, 1.0, 1.0], 200), ([1.0, 1.0, 6.0, 1.0], 20)):
        for _ in range(steps):
            guard.follow(0, [np.array(sums)])
    assert not guard.prefers_static(0)  # the mean of all 220 steps would


def test_sources_that_are_kept_for_certain_have_no_error():
    factor, drawn = np.array([2.0, 3.0, 5.0]), np.array([1.0, 3.0, 2.5])
    is_open, row = np.array([True, False, True]), np.array([0, 1, 2, 2])
    found = Guard.sums(factor, drawn, is_open, row, np.array([1.0, 10.0, 2.0, 3.0]))
    errors = 1 * 1 / 2 + (2 + 3) * 2.5 / 5
    np.testing.assert_allclose(found, [2 + 2, errors, 1 + 0.4, 1 + (2 + 3) * 2.5])


def test_a_layer_with_attention_is_left_to_its_scores():
    graph, x = communities()
    sampler = learnt(Bliss(graph, [150], estimator="hajek"), x)
    even = sampler.inclusion(SEEDS, 0).prob
    (block,) = sampler.sample(SEEDS, 99)
    score = torch.exp(x[block.row, 0].clamp(-3, 3))
    sums = torch.zeros(block.num_dst).index_add_(0, block.col, score)
    block.observe(x[block.src], attention=score / sums[block.col])
    sampler.update([block])
    assert sampler.policy._guard.prefers_static(0)
    assert sampler.policy.node_codes(0).code.size  # which static masses do not have
    assert not np.array_equal(sampler.inclusion(SEEDS, 0).prob, even)


def test_a_saved_guard_is_loaded_and_damaged_news_is_refused():
    graph, x = communities()
    sampler = learnt(Bliss(graph, [150], estimator="hajek"), x, 60)
    other = Bliss(graph, [150], estimator="hajek")
    other.load_state_dict(sampler.state_dict())
    assert torch.equal(other.sample(SEEDS, 9)[0].src, sampler.sample(SEEDS, 9)[0].src)
    with pytest.raises(Exception, match="four sums"):
        sampler.apply([[{"guard.sums": np.zeros(3)}]])


def watched(sampler: Bliss, x: torch.Tensor) -> list:
    """Observed blocks of the first step whose blocks are all measured."""
    for step in range(200):
        blocks = sampler.sample(SEEDS, step)
        for block in blocks:
            block.observe(x[block.src])
        if all(block.observation.spread is not None for block in blocks):
            return blocks
    raise AssertionError("no step was measured")


@pytest.mark.parametrize("estimator", ["ht", "hajek"])
def test_measured_errors_are_their_formula(estimator):
    graph, x = communities(2)
    (block,) = watched(Bliss(graph, [150], estimator=estimator), x)
    spread, edges = block.observation.spread.double(), block.observation.watched.tolist()
    chosen = [k * len(SEEDS) // WATCHED for k in range(WATCHED)]  # spread over the targets
    assert edges == [e for e in range(block.num_edges) if int(block.col[e]) in chosen]
    for at, e in enumerate(edges):
        i = int(block.col[e])
        own = slice(int(block.indptr[i]), int(block.indptr[i + 1]))
        weight, h = block.edge_weight[own].double(), x[block.src[block.row[own]]].double()
        share, place = weight / weight.sum(), e - own.start
        apart = h[place].square().sum()
        if estimator == "hajek":
            rest = 1 - share[place]
            apart = (h[place] - share @ h).square().sum() / rest if rest > 1e-6 else 0.0
        expected = float(weight[place] ** 2 * apart)
        assert float(spread[at]) == pytest.approx(expected, rel=2e-3, abs=1e-9)


def test_errors_count_by_the_influence_of_their_targets():
    graph, x = communities(3)
    sampler = Bliss(graph, [150, 80], estimator="hajek")
    blocks = watched(sampler, x)
    seen = blocks[0].feedback()
    target = blocks[0].col[seen.watched].numpy()
    influence = seen.rows.influence[target]
    assert influence[target < SEEDS.size].min() > 1.5 and target.max() > SEEDS.size
    ones, is_open = np.ones(seen.src.size), seen.prob < 1
    row = seen.row[seen.watched]
    expected = Guard.sums(ones, ones, is_open, row, seen.spread * influence)  # nothing is learnt
    found = sampler.digest(blocks)[0]["guard.sums"]
    np.testing.assert_allclose(found, expected, rtol=0.05)  # the code of 1 is rounded
    even = Guard.sums(ones, ones, is_open, row, seen.spread)
    assert abs(even[3] / expected[3] - 1) > 0.1
