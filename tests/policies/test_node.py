"""The node bandit learns sizes, forgets, explores, and stays small."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import PLADIES, Bliss, Block, Graph
from bliss.kernels import node_bandit
from bliss.samplers import LayerSampler
from bliss.studies.layer_errors import error, least_error
from tests.conftest import heavy_tailed_pairs


def factors(sampler: Bliss, layer: int = 0) -> np.ndarray:
    """f_j of every node: the masses of `node` over those of `static`."""
    code, table = sampler.policy.node_codes(layer)
    return np.sqrt(table[code])


def train(sampler: Bliss, size: np.ndarray, steps: int, start: int = 0) -> None:
    random = np.random.default_rng(start)
    for step in range(start, start + steps):
        seeds = random.permutation(sampler.graph.num_nodes)[:20]
        blocks = sampler.sample(seeds, step)
        for block in blocks:
            block.observe(torch.from_numpy(size[block.src.numpy()])[:, None])
        sampler.update(blocks)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.from_edge_index(heavy_tailed_pairs(100, 800), 100)


def test_unseen_nodes_have_factor_one_and_masses_of_static(graph):
    bandit, static = Bliss(graph, [20]), PLADIES(graph, [20])
    np.testing.assert_allclose(factors(bandit), 1, rtol=1e-6)
    for ours, theirs in zip(
        bandit.inclusion(np.arange(9), 0), static.inclusion(np.arange(9), 0), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_factors_become_proportional_to_sizes(graph):
    size = np.random.default_rng(1).lognormal(0, 1, 100).astype(np.float32)
    sampler = Bliss(graph, [40], eta=1e-6)
    train(sampler, size, 200)
    ratio = np.log(factors(sampler) / size)
    assert np.abs(ratio - np.median(ratio)).max() < 0.1  # steps of a code are 1/16


def test_the_formula_is_the_documented_one(graph):
    sampler = Bliss(graph, [100], eta=0.02, memory=0.1)
    seeds = np.arange(100)
    random = np.random.default_rng(2)
    looks = random.normal(0, 0.7, 100) + random.normal(0, 0.5, (5, 100))  # a node's own, and noise
    sizes = np.exp(looks).astype(np.float32)
    mean, level, scatter, believed = np.zeros(100), 0.0, np.zeros(2), np.zeros(100)
    for step, size in enumerate(sizes):
        blocks = sampler.sample(seeds, step)
        blocks[0].observe(torch.from_numpy(size[blocks[0].src.numpy()])[:, None])
        sampler.update(blocks)
        least = 0.03 * size.mean()
        signal = np.log(np.maximum(size, least))
        level += max(1 / (step + 1), 0.1) * (signal.mean() - level)
        news = signal - level
        within, total = scatter  # of the steps before
        prior = within / max(total - within, 0.02 * within) if step > 1 else 0.5
        if step > 0:
            missed = np.mean((news - mean) ** 2) / (1 + 1 / step)
            scatter += (np.array([missed, np.mean(news**2)]) - scatter) / step
        mean += (news - mean) / (step + 1)
        believed = mean * (step + 1) / (step + 1 + prior)
    expected = 0.98 * np.exp(believed) + 0.02
    np.testing.assert_allclose(factors(sampler), expected, rtol=0.035)  # half a code step
    np.testing.assert_array_less(0.1, np.abs(believed - mean).max())  # shrinking can be seen


def test_it_follows_sizes_that_change(graph):
    size = np.random.default_rng(1).lognormal(0, 1, 100).astype(np.float32)
    sampler = Bliss(graph, [60])
    train(sampler, size, 100)
    train(sampler, size[::-1].copy(), 150, start=100)
    correlation = np.corrcoef(np.log(factors(sampler)), np.log(size[::-1]))[0, 1]
    assert correlation > 0.95


def test_a_source_of_size_zero_stays_reachable(graph):
    sampler = Bliss(graph, [40])
    train(sampler, np.zeros(100, np.float32), 20)
    np.testing.assert_allclose(factors(sampler), 1, rtol=1e-6)  # a dead layer: nothing to learn
    size = np.ones(100, np.float32)
    size[3] = 0
    train(sampler, size, 100, start=20)
    assert 0.01 <= factors(sampler)[3] < 0.2


def attend(block: Block, score: np.ndarray, noise: float = 0.0) -> torch.Tensor:
    """Attention of four heads, a softmax over the kept edges of a score per source."""
    logit = torch.from_numpy(np.log(score))[block.src[block.row]]
    if noise:
        key = torch.Generator().manual_seed(int(block.edge.sum()))
        logit = logit + noise * torch.randn(logit.shape, generator=key, dtype=logit.dtype)
    weight = logit.exp().float()
    total = torch.zeros(block.num_dst).index_add_(0, block.col, weight)
    return (weight / total[block.col])[:, None].expand(-1, 4)


def train_attention(sampler: Bliss, score: np.ndarray, steps: int, noise: float = 0.0) -> None:
    random = np.random.default_rng(0)
    for step in range(steps):
        blocks = sampler.sample(random.permutation(sampler.graph.num_nodes)[:20], step)
        for block in blocks:
            block.observe(torch.ones(block.num_src, 1), attend(block, score, noise))
        sampler.update(blocks)


def variance(sampler: LayerSampler, score: np.ndarray, layer: int = 0) -> tuple[float, float]:
    """V of some batches with attention a_j / sum over N_i, and the least at as many sources."""
    graph, own, least = sampler.graph, 0.0, 0.0
    for first in range(0, graph.num_nodes, 20):
        dst = np.arange(first, first + 20)
        node, prob = sampler.inclusion(dst, layer)[:2]
        stake = np.zeros(graph.num_nodes)
        for i in dst:
            around = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
            np.add.at(stake, around, (score[around] / score[around].sum()) ** 2)
        own += error(prob, stake[node])
        least += least_error(prob, dst.size, stake[node])
    return own, least


SCORE = np.random.default_rng(3).lognormal(0, 1.5, 100)


@pytest.fixture(scope="module")
def learnt_scores(graph) -> dict[str, torch.Tensor]:
    """The state of a bandit that has seen 400 steps of attention proportional to SCORE."""
    bandit = Bliss(graph, [30])
    train_attention(bandit, SCORE, 400)
    return bandit.state_dict()


def test_attention_is_learnt_to_the_limit(graph, learnt_scores):
    # V of a policy over the least possible: a score per node and sums per target say it all
    score = SCORE
    bandit, static = Bliss(graph, [30]), PLADIES(graph, [30])
    bandit.load_state_dict(learnt_scores)
    own, least = variance(bandit, score)
    assert own / least < 1.05
    fixed, fixed_least = variance(static, score)
    assert fixed / fixed_least > 1.5
    # the mutant knows the scores, but not what each target divides by
    bandit.policy._score.steps[:] = 0
    blind, blind_least = variance(bandit, score)
    assert blind / blind_least > 1.15


def test_attention_that_says_nothing_does_no_harm(graph):
    bandit, static = Bliss(graph, [30]), PLADIES(graph, [30])
    alike = np.ones(100)
    train_attention(bandit, alike, 300, noise=1.0)
    assert variance(bandit, alike)[0] < 1.05 * variance(static, alike)[0]
    # the mutant believes whatever it saw last
    mutant = Bliss(graph, [30], memory=0.9)
    mutant.policy._score.prior = lambda layer: 0.0
    train_attention(mutant, alike, 300, noise=1.0)
    assert variance(mutant, alike)[0] > 1.3 * variance(static, alike)[0]


def test_steps_without_attention_keep_the_scores(graph, learnt_scores):
    bandit = Bliss(graph, [30])
    bandit.load_state_dict(learnt_scores)
    before = factors(bandit).copy()
    train(bandit, np.ones(100, np.float32), 30, start=400)
    np.testing.assert_allclose(factors(bandit), before, rtol=0.07)  # a code step


def test_a_target_with_a_single_kept_edge_tells_nothing():
    # 0 <- 1, 0 <- 2, 3 <- 4: target 3 keeps one edge only, a softmax over itself
    news = node_bandit.source_scores(
        np.array([0, 2, 3]),
        np.array([0, 1, 2]),
        np.array([0.8, 0.2, 1.0], np.float32),
        np.array([0.5, 0.5, 2.0, 7.0], np.float32),
    )
    np.testing.assert_allclose(news[:2], 0.5 + np.array([1, -1]) * np.log(2), rtol=1e-6)
    assert np.isnan(news[2:]).all()
    sampler = Bliss(Graph.from_edge_index([[1, 2], [0, 1]], 3, self_loops="keep"), [3])
    blocks = sampler.sample([0, 1], 0)
    blocks[0].observe(torch.ones(blocks[0].num_src, 1), torch.ones(blocks[0].num_edges))
    sampler.update(blocks)
    assert not any(arm.any() for arm in sampler.policy._score.arm)
    blocks = sampler.sample([2], 1)  # without a single edge
    blocks[0].observe(torch.ones(1, 1), torch.ones(0, 4))
    sampler.update(blocks)
    assert np.isfinite(sampler.inclusion(np.arange(3), 0)[1]).all()


def test_layers_learn_attention_apart(graph):
    random = np.random.default_rng(3)
    scores = random.lognormal(0, 1.5, (2, 100))
    bandit = Bliss(graph, [30, 30])
    for step in range(300):
        blocks = bandit.sample(random.permutation(100)[:20], step)
        for block, score in zip(blocks, scores, strict=True):
            block.observe(torch.ones(block.num_src, 1), attend(block, score))
        bandit.update(blocks)
    for layer, score in enumerate(scores):
        own, least = variance(bandit, score, layer)
        assert own / least < 1.1
        own, least = variance(bandit, score, 1 - layer)
        assert own / least > 1.5


def test_scores_do_not_drift(graph):
    # Noise has a sign in logarithms of sums; scores that followed it would run away together.
    sampler = Bliss(graph, [30])
    train_attention(sampler, np.ones(100), 500, noise=1.5)
    arm = sampler.policy._score.arm[0]
    assert abs(arm[arm[:, 1] > 0, 0].mean()) < 0.5


def test_attention_owes_nothing_to_given_coefficients():
    edges = heavy_tailed_pairs(100, 800)
    score = np.random.default_rng(3).lognormal(0, 1.5, 100)
    found = []
    for norm in ("mean", "gcn"):
        sampler = Bliss(Graph.from_edge_index(edges, 100, norm=norm), [100])  # keeps everything
        train_attention(sampler, score, 30)
        sampler.budgets = (30,)
        found.append(sampler.inclusion(np.arange(20), 0)[1])
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_state_is_18_bytes_per_node_and_layer(graph):
    sampler = Bliss(graph, [5, 5, 5])
    per_node = [t for t in sampler.state_dict().values() if t.shape[:1] == (graph.num_nodes,)]
    assert sum(array.nbytes for array in per_node) == 18 * graph.num_nodes * 3
