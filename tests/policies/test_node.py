"""The node bandit learns sizes, forgets, explores, and stays small."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import PLADIES, Bliss, Graph
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


@pytest.fixture()
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
    sampler = Bliss(graph, [40], eta=1e-6, prior=1e-3)
    train(sampler, size, 200)
    ratio = np.log(factors(sampler) / size)
    assert np.abs(ratio - np.median(ratio)).max() < 0.1  # steps of a code are 1/16


def test_the_formula_is_the_documented_one(graph):
    sampler = Bliss(graph, [100], eta=0.02, memory=0.1, prior=2.0)
    seeds = np.arange(100)
    sizes = np.random.default_rng(2).lognormal(0, 1, (3, 100)).astype(np.float32)
    mean, level = np.zeros(100), 0.0
    for step, size in enumerate(sizes):
        blocks = sampler.sample(seeds, step)
        blocks[0].observe(torch.from_numpy(size[blocks[0].src.numpy()])[:, None])
        sampler.update(blocks)
        level += max(1 / (step + 1), 0.1) * (np.log(size).mean() - level)
        mean += max(1 / (step + 1), 0.1) * (np.log(size) - level - mean)
    expected = 0.98 * np.exp(mean * 3 / 5) + 0.02
    np.testing.assert_allclose(factors(sampler), expected, rtol=0.035)  # half a code step


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


def test_attention_adds_what_targets_pay(graph):
    # Every target looks at its even neighbours ten times as much as at its odd ones.
    sampler = Bliss(graph, [40])
    random = np.random.default_rng(0)
    for step in range(200):
        blocks = sampler.sample(random.permutation(100)[:20], step)
        block = blocks[0]
        score = torch.where(block.src[block.row] % 2 == 0, 10.0, 1.0)
        total = torch.zeros(block.num_dst).index_add_(0, block.col, score)
        attention = (score / total[block.col])[:, None].expand(-1, 4)
        block.observe(torch.ones(block.num_src, 1), attention)
        sampler.update(blocks)
    even, odd = factors(sampler)[::2], factors(sampler)[1::2]
    shared = graph.degree > 3  # nodes that are sampled often enough to be known
    assert np.median(even[shared[::2]]) > 3 * np.median(odd[shared[1::2]])


def test_state_is_at_most_twelve_bytes_per_node_and_layer(graph):
    sampler = Bliss(graph, [5, 5, 5])
    per_node = [t for t in sampler.state_dict().values() if t.shape[:1] == (graph.num_nodes,)]
    assert sum(array.nbytes for array in per_node) <= 12 * graph.num_nodes * 3
