"""Cluster-GCN: a partition that cuts few edges, batches of whole clusters, and a stated bias."""

from __future__ import annotations

import numpy as np
import pytest

from bliss import Graph, InputError
from bliss.errors import ResourceError
from bliss.samplers import ClusterGCN
from bliss.samplers.partition import edge_cut, partition
from tests.statistics import coefficients, full_aggregate, targets_of, weight_matrix

GROUPS = 12
SLACK = 1.03  # how much larger than the mean METIS lets a part become


def communities(norm: str = "mean") -> Graph:
    """600 nodes in 12 hidden groups; 84% of 4,764 edges run within them."""
    random = np.random.default_rng(5)
    group = random.permutation(np.arange(600) % GROUPS)
    pairs = random.integers(0, 600, (2, 30_000))
    same = group[pairs[0]] == group[pairs[1]]
    pairs = pairs[:, (same & (random.random(30_000) < 0.8)) | (random.random(30_000) < 0.013)]
    pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
    weight = random.lognormal(0, 0.5, pairs.shape[1]) if norm == "weights" else None
    return Graph.from_edge_index(pairs, 600, weight=weight, norm=norm)


def random_part(parts: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(600) % parts)


def test_partition_covers_every_node_and_is_balanced():
    graph = communities()
    for parts in (1, 2, 7, 12, 50):
        part = partition(graph, parts)
        assert part.shape == (600,)
        size = np.bincount(part, minlength=parts)
        assert size.size == parts
        assert size.max() <= np.ceil(SLACK * 600 / parts)
        np.testing.assert_array_equal(part, partition(graph, parts))


def test_partition_cuts_few_edges():
    # 16% of edges run between the hidden groups: METIS cuts these, a random partition 92%.
    graph = communities()
    for seed in range(4):
        assert edge_cut(graph, partition(graph, GROUPS, seed)) < 0.2
    assert edge_cut(graph, random_part(GROUPS)) > 0.9


def test_graphs_without_edges_and_with_parts_of_their_own_are_cut():
    none = Graph.from_edge_index(np.zeros((2, 0), np.int64), 9)
    assert sorted(np.bincount(partition(none, 3), minlength=3)) == [3, 3, 3]
    apart = [[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]]  # two triangles, one way
    part = partition(Graph.from_edge_index(np.array(apart)), 2)
    assert part[0] == part[1] == part[2] != part[3] == part[4] == part[5]


def test_edge_cut_counts_edges_between_parts():
    graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 0]], num_nodes=4)
    assert edge_cut(graph, np.array([0, 0, 1, 1])) == pytest.approx(1 / 3)  # 0-1, 2-3, 3-0


def make(graph: Graph, wanted: np.ndarray, batch_size: int, **options) -> ClusterGCN:
    options = {"parts": GROUPS, "layers": 1} | options
    sampler = ClusterGCN(graph, **options)
    sampler.prepare(wanted, batch_size)
    return sampler


def test_an_epoch_has_every_wanted_node_once_in_batches_of_whole_clusters():
    wanted = np.random.default_rng(1).permutation(600)[:200]
    sampler = make(communities(), wanted, 50)
    for epoch in range(3):
        batches = sampler.batches(epoch)
        assert len(batches) == 4
        assert sorted(np.concatenate(batches)) == sorted(wanted)
        clusters = [set(sampler.part[batch]) for batch in batches]
        assert sum(map(len, clusters)) == len(set().union(*clusters))  # none in two batches
    first, second = ([sorted(b) for b in sampler.batches(epoch)] for epoch in (0, 1))
    assert first != second
    assert first == [sorted(b) for b in make(communities(), wanted, 50).batches(0)]
    assert first != [sorted(b) for b in make(communities(), wanted, 50, seed=1).batches(0)]


def test_clusters_without_wanted_nodes_take_no_part_and_large_batches_are_all_there_is():
    sampler = make(communities(), np.arange(3), 1000)
    (batch,) = sampler.batches(0)
    assert sorted(batch) == [0, 1, 2]
    (block,) = sampler.sample(batch, 0)
    assert block.num_src == np.isin(sampler.part, sampler.part[:3]).sum()


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_blocks_are_the_clusters_and_rows_are_normalised_anew(norm):
    graph = communities(norm)
    sampler = make(graph, np.arange(0, 600, 3), 60, layers=2)
    batch = sampler.batches(0)[1]
    below, block = sampler.sample(batch, 0)
    assert block.dst.tolist() == batch.tolist()
    inside = np.isin(sampler.part, sampler.part[batch])
    assert set(block.src.tolist()) == set(np.flatnonzero(inside))
    target = targets_of(graph)
    expected = np.flatnonzero(inside[target] & inside[graph.indices])
    np.testing.assert_array_equal(np.sort(below.edge.numpy()), expected)
    sums = np.bincount(below.col.numpy(), below.edge_weight.numpy())
    np.testing.assert_allclose(sums, graph.rows(below.dst.numpy()).coefficient_sum(), rtol=1e-5)
    alpha = coefficients(graph)[below.edge.numpy()]
    ratio = below.edge_weight.numpy() / alpha  # one factor for each row
    for row in range(below.num_dst):
        here = slice(below.indptr[row], below.indptr[row + 1])
        np.testing.assert_allclose(ratio[here], ratio[here][0], rtol=1e-5)
    if norm == "mean":
        degree = below.indptr.diff().numpy()
        np.testing.assert_allclose(below.edge_weight.numpy(), np.repeat(1 / degree, degree), 1e-6)
    assert block.dst_weight is None


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
@pytest.mark.parametrize("way", ["rows", "mean", "symmetric"])
def test_coefficients_of_a_batch_are_those_of_its_adjacency_matrix(way, norm):
    graph = communities(norm)
    sampler = make(graph, np.arange(0, 600, 3), 60, renormalise=way)
    (block,) = sampler.sample(sampler.batches(0)[1], 0)
    node = block.src.numpy()
    adjacency = np.zeros((600, 600))  # A + I, with self-loops and parallel edges
    entries = graph.weight if norm == "weights" else np.ones(graph.num_edges)
    np.add.at(adjacency, (targets_of(graph), graph.indices), entries)
    batch = adjacency[np.ix_(node, node)]
    degree = batch.sum(1)
    assert (degree < adjacency[node].sum(1)).any()  # some edges leave the batch
    expected = {
        "mean": batch / degree[:, None],
        "symmetric": batch / np.sqrt(np.outer(degree, degree)),
    }
    found = np.zeros((block.num_dst, node.size))
    np.add.at(found, (block.col.numpy(), block.row.numpy()), block.edge_weight.numpy())
    agrees = {name: np.allclose(found, one[: block.num_dst]) for name, one in expected.items()}
    same = {way} | ({"mean"} if norm == "mean" and way == "rows" else set())
    assert agrees == {name: name in same for name in expected}


@pytest.mark.parametrize("way", ["mean", "symmetric"])
def test_a_node_that_keeps_one_edge_has_its_degree(way):
    # Node 2 has no neighbour: its self-loop is its only edge.
    graph = Graph.from_edge_index(np.array([[0, 1], [1, 0]]), 3)
    sampler = make(graph, np.arange(3), 3, parts=1, renormalise=way)
    (block,) = sampler.sample(np.arange(3), 0)
    weight = weight_matrix(block)[:, block.src.argsort()].numpy()
    np.testing.assert_allclose(weight, [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])


def bias(sampler: ClusterGCN, epochs: int = 30) -> float:
    """|E aggregate - full| / |full| over all nodes and 4 random features."""
    graph = sampler.graph
    x = np.random.default_rng(2).normal(size=(600, 4))
    total = np.zeros_like(x)
    for epoch in range(epochs):
        for batch in sampler.batches(epoch):
            (block,) = sampler.sample(batch, 0)
            message = block.edge_weight.numpy()[:, None] * x[block.src[block.row].numpy()]
            np.add.at(total, block.dst[block.col].numpy(), message)
    full = full_aggregate(graph, np.arange(600), x)
    return float(np.linalg.norm(total / epochs - full) / np.linalg.norm(full))


def test_bias_is_none_for_one_cluster_and_grows_with_the_edges_cut():
    # Batches of 3 of 12 clusters, and features without any order, where bias is worst: 0.34 with
    # METIS's clusters (16% of edges cut), 1.15 with random ones.
    graph, everyone = communities(), np.arange(600)
    assert bias(make(graph, everyone, 150, parts=1), epochs=1) < 1e-6
    cut = bias(make(graph, everyone, 150))
    at_random = make(graph, everyone, 150)
    at_random.part = random_part(GROUPS)
    assert 0.25 < cut < 0.45
    assert bias(at_random) > 1.0


def test_without_metis_the_sampler_is_refused_before_anything_is_cut(monkeypatch):
    monkeypatch.setattr("bliss.samplers.partition.find_spec", lambda _: None)
    with pytest.raises(ResourceError, match=r"pip install 'bliss-gnn\[metis\]'"):
        ClusterGCN(communities(), layers=1)


REFUSED = {
    "no parts": ({"parts": 0}, "parts=0"),
    "too many parts": ({"parts": 601}, "parts=601 exceeds the graph's 600 nodes"),
    "unknown coefficients": ({"renormalise": "columns"}, "renormalise='columns'"),
    "unknown option": ({"partitioner": "kmeans"}, "partitioner='kmeans' is not an option"),
    "budgets": ({"budgets": [5]}, "budgets=.* would have no effect"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_get_one_sentence(case):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        ClusterGCN(communities(), **({"layers": 1} | options))
    assert "\n" not in str(caught.value)
