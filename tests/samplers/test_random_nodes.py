"""Random node subgraphs: nodes and pairs are drawn with the stated probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from bliss import Graph
from bliss.rng import uniforms
from bliss.samplers import RandomNodes
from bliss.samplers.configs import RandomNodesConfig
from tests.statistics import coefficients, heavy_tailed_graph, normal_limit, targets_of

FALSE_ALARM = 1e-6  # chance that a correct sampler fails, in each test that rolls dice
TIMES = 3000
NODES, DRAWN = 60, 25
WANTED = np.array([0, 2, 9, 14, 20, 30, 40, 41, 55])


class Smallest(RandomNodes):
    """Mutant: of the distinct nodes that were drawn, those with the smallest ids."""

    def _visited(self, key):
        drawn = (uniforms(key, np.arange(2 * self._batch_size)) * NODES).astype(np.int64)
        return np.unique(drawn)[: self._batch_size]


class Repeated(RandomNodes):
    """Mutant: draws with replacement."""

    def _visited(self, key):
        return (uniforms(key, np.arange(self._batch_size)) * NODES).astype(np.int64)


def make(graph: Graph, kind: type[RandomNodes] = RandomNodes, drawn: int = DRAWN, **options):
    """A sampler that is ready to draw."""
    sampler = kind(graph, layers=1, **options)
    sampler.prepare(WANTED, drawn)
    return sampler


@pytest.mark.parametrize("kind", [RandomNodes, Smallest, Repeated])
def test_nodes_pairs_and_losses_have_the_stated_probabilities(kind):
    sampler = make(heavy_tailed_graph(), kind)
    kept, loss = np.zeros((TIMES, NODES)), np.zeros(TIMES)
    value = np.arange(1.0, NODES + 1)
    for step in range(TIMES):
        (block,) = sampler.sample(WANTED, step)
        kept[step, block.src.numpy()] = 1.0
        loss[step] = block.dst_weight.numpy() @ value[block.dst.numpy()]
    prob = DRAWN / NODES
    pair = prob * (DRAWN - 1) / (NODES - 1)
    first, second = np.triu_indices(NODES, 1)
    both = (kept.T @ kept)[first, second] / TIMES
    z = [
        *np.sqrt(TIMES / (prob * (1 - prob))) * (kept.mean(0) - prob),
        *np.sqrt(TIMES / (pair * (1 - pair))) * (both - pair),
        np.sqrt(TIMES) * (loss.mean() - value[WANTED].mean()) / loss.std(ddof=1),
    ]
    worst = np.abs(z).max()
    assert (worst < normal_limit(FALSE_ALARM, len(z))) == (kind is RandomNodes)


def test_a_batch_has_exactly_so_many_nodes_and_all_edges_among_them():
    graph = heavy_tailed_graph()
    sampler = make(graph)
    target, source = targets_of(graph), graph.indices
    for step in range(20):
        (block,) = sampler.sample(WANTED, step)
        nodes = block.src.numpy()
        assert np.unique(nodes).size == nodes.size == DRAWN
        assert set(block.dst.tolist()) == set(nodes) & set(WANTED)
        inside = np.isin(target, block.dst.numpy()) & np.isin(source, nodes)
        assert set(block.edge.tolist()) == set(np.flatnonzero(inside))


@pytest.mark.parametrize("renormalise", ["rows", "mean"])
@pytest.mark.parametrize("norm", ["mean", "gcn"])
def test_rows_are_renormalised(norm, renormalise):
    graph = heavy_tailed_graph(norm)
    (block,) = make(graph, renormalise=renormalise).sample(WANTED, 3)
    owner = np.repeat(np.arange(block.num_dst), np.diff(block.indptr.numpy()))
    total = np.bincount(owner, block.edge_weight.numpy(), block.num_dst)
    full = np.bincount(targets_of(graph), coefficients(graph), NODES)[block.dst.numpy()]
    np.testing.assert_allclose(total, full if renormalise == "rows" else 1.0, rtol=1e-5)


@pytest.mark.parametrize("drawn", [NODES, NODES + 5])
def test_a_batch_of_the_whole_graph_is_exact(drawn):
    graph = heavy_tailed_graph()
    (block,) = make(graph, drawn=drawn).sample(WANTED, 0)
    assert block.num_src == NODES
    np.testing.assert_allclose(
        block.edge_weight.numpy(), coefficients(graph)[block.edge.numpy()], rtol=1e-6
    )
    np.testing.assert_allclose(block.dst_weight.numpy(), 1 / WANTED.size, rtol=1e-6)


def test_almost_all_nodes_can_be_drawn():
    (block,) = make(heavy_tailed_graph(), drawn=NODES - 1).sample(WANTED, 0)
    assert block.num_src == NODES - 1


def test_a_batch_without_targets_has_no_loss():
    sampler = make(heavy_tailed_graph(), drawn=1)
    blocks = [sampler.sample(WANTED, step)[0] for step in range(30)]
    assert min(block.num_dst for block in blocks) == 0
    assert all(block.num_src == 1 for block in blocks)


def test_another_config_is_refused():
    with pytest.raises(ValueError, match="renormalise='columns'"):
        RandomNodesConfig(renormalise="columns")
