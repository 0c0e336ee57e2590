"""EXP3 with scale-free rewards: it learns what the published one would, whatever the scale."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import Bliss, Graph
from bliss.errors import InputError
from tests.conftest import heavy_tailed_pairs

TARGETS = np.arange(30)


@pytest.fixture()
def graph() -> Graph:
    return Graph.from_edge_index(heavy_tailed_pairs(60, 500, seed=3), 60)


def sizes() -> np.ndarray:
    return np.random.default_rng(1).lognormal(0, 0.7, 60).astype(np.float32)


def taught(graph: Graph, size: np.ndarray, steps: int = 150, **options: float) -> Bliss:
    sampler = Bliss(graph, [45], policy="exp3-scale-free", **options)
    for step in range(steps):
        (block,) = sampler.sample(TARGETS, step)
        block.observe(torch.from_numpy(size[block.src.numpy()])[:, None])
        sampler.update([block])
    return sampler


def edge_prob(sampler: Bliss, node: int) -> np.ndarray:
    offset, slope, value, _ = sampler.policy.edge_mass(0, sampler.graph.rows(np.array([node])))
    rows = slice(*sampler.graph.indptr[node : node + 2])
    return offset[0] + slope[0] * value[rows]


def test_shares_become_proportional_to_messages(graph):
    size = sizes()
    sampler = taught(graph, size, eta=1e-6)
    for node in TARGETS[graph.degree[TARGETS] > 5]:
        row = graph.indices[slice(*graph.indptr[node : node + 2])]
        share = edge_prob(sampler, node)
        best = size[row] / size[row].sum()  # alpha_ij is constant in a row
        assert share.sum() == pytest.approx(1, rel=1e-4)
        np.testing.assert_allclose(share, best, rtol=0.05)


def test_a_common_factor_of_the_embeddings_changes_nothing(graph):
    small, large = taught(graph, sizes()), taught(graph, 1000 * sizes())
    for ours, theirs in zip(small.inclusion(TARGETS, 0), large.inclusion(TARGETS, 0), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_one_update_is_the_documented_formula(graph):
    sampler = Bliss(graph, [60], policy="exp3-scale-free", step=0.3)
    size = sizes()
    (block,) = sampler.sample(TARGETS, 0)
    block.observe(torch.from_numpy(size[block.src.numpy()])[:, None])
    sampler.update([block])
    signal = np.log(size[block.src.numpy()][block.row.numpy()])  # alpha_ij |N_i| = 1
    weight = np.exp(0.3 * (signal - signal.mean()))
    learnt = sampler.state_dict()["exp3.0.weight"].numpy()
    np.testing.assert_allclose(learnt[block.edge.numpy()], weight, rtol=1e-5)


def test_relative_attention_stands_in_for_the_coefficient(graph):
    # Every target looks at its even neighbours ten times as much as at its odd ones.
    sampler = Bliss(graph, [60], policy="exp3-scale-free", eta=1e-6)
    for step in range(40):
        (block,) = sampler.sample(TARGETS, step)
        score = torch.where(block.src[block.row] % 2 == 0, 10.0, 1.0)
        total = torch.zeros(block.num_dst).index_add_(0, block.col, score)
        block.observe(torch.ones(block.num_src, 1), score / total[block.col])
        sampler.update([block])
    node = int(TARGETS[graph.degree[TARGETS].argmax()])
    row = graph.indices[slice(*graph.indptr[node : node + 2])]
    share = edge_prob(sampler, node)
    assert share[row % 2 == 0].mean() == pytest.approx(10 * share[row % 2 == 1].mean(), rel=0.02)


def test_a_dead_layer_teaches_nothing(graph):
    sampler = taught(graph, np.zeros(60, np.float32), steps=5)
    assert (sampler.state_dict()["exp3.0.weight"].numpy() == 1).all()


@pytest.mark.parametrize(("name", "value"), [("eta", 0.0), ("eta", 1.5), ("step", 0.0)])
def test_bad_options_are_refused(graph, name, value):
    with pytest.raises(InputError, match=name):
        Bliss(graph, [5], policy="exp3-scale-free", **{name: value})
