"""norm="weighted-mean": weights over their sum, also without some edges, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from bliss import Graph, InputError

NODES = 25


def random_graph(seed: int) -> Graph:
    """Weights over seven decades, a row of zeros, and a node without in-edges of others."""
    random = np.random.default_rng(seed)
    pairs = random.integers(0, NODES - 1, (2, 160))
    weight = random.lognormal(0, 3, 160).astype(np.float32)
    weight[random.random(160) < 0.2] = 0
    weight[pairs[1] == 3] = 0
    loops = "add" if seed % 2 else "keep"
    return Graph.from_edge_index(pairs, NODES, weight, "weighted-mean", loops, "coalesce")


def twin(graph: Graph, hidden: np.ndarray) -> np.ndarray:
    """alpha_ij of all edges as a matrix, [target, source], from the definition."""
    dense = np.zeros((graph.num_nodes, graph.num_nodes))
    for i in range(graph.num_nodes):
        for e in range(graph.indptr[i], graph.indptr[i + 1]):
            if e not in hidden:
                dense[i, graph.indices[e]] += np.float64(graph.weight[e])
    total = dense.sum(axis=1, keepdims=True)
    return np.divide(dense, total, out=np.zeros_like(dense), where=total > 0)


@pytest.mark.parametrize("seed", range(8))
def test_rows_agree_with_numpy_and_with_the_graph_without_the_edges(seed):
    graph, random = random_graph(seed), np.random.default_rng(100 + seed)
    hidden = np.flatnonzero(random.random(graph.num_edges) < 0.3)
    hidden = np.union1d(hidden, np.arange(graph.indptr[5], graph.indptr[6]))
    left = np.setdiff1d(np.arange(graph.num_edges), hidden)
    target = np.repeat(np.arange(NODES), graph.degree)[left]
    indptr = np.searchsorted(target, np.arange(NODES + 1))
    arrays = indptr, graph.indices[left], graph.weight[left]
    built = Graph.from_csc(*arrays, "weighted-mean", self_loops="keep")
    value = random.normal(size=(NODES, 3)).astype(np.float32)
    nodes = random.permutation(NODES)
    whole = graph.rows(nodes).full_sums(value)
    for edges, wanted in ((hidden, built), (np.empty(0, np.int64), graph)):
        alpha = twin(graph, edges)
        assert ((alpha.sum(1) == 0) | (np.abs(alpha.sum(1) - 1) < 1e-12)).all()
        rows = graph.rows(nodes, without=edges)
        pointers, edge = rows.edges()
        kept = rows.coefficients(np.arange(NODES), pointers, graph.indices[edge], edge)
        dense = np.zeros((NODES, NODES))
        np.add.at(dense, (np.repeat(nodes, np.diff(pointers)), graph.indices[edge]), kept)
        np.testing.assert_allclose(dense, alpha, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(rows.coefficient_sum(), alpha.sum(1)[nodes], rtol=1e-12)
        exact = alpha[nodes] @ value
        for sums in (
            rows.full_sums(value),
            rows.visible_sums(whole.copy(), value),
            wanted.rows(nodes).full_sums(value),
        ):
            np.testing.assert_allclose(sums, exact, rtol=1e-4, atol=1e-5)
    with pytest.raises(AssertionError):  # the raw weights would show
        raw = graph.with_norm("weights").rows(nodes).full_sums(value)
        np.testing.assert_allclose(raw, exact, rtol=1e-4, atol=1e-5)


def test_an_added_self_loop_has_the_share_of_a_plain_mean():
    pairs = [[0, 1, 2, 0, 3], [3, 3, 3, 1, 3]]
    weight = [900.0, 90.0, 10.0, 7.0, 5.0]  # the last is a self-loop, which is replaced
    graph = Graph.from_edge_index(pairs, 4, weight, "weighted-mean")
    alpha = twin(graph, np.empty(0))
    np.testing.assert_allclose(alpha[3], [0.675, 0.0675, 0.0075, 0.25], rtol=1e-6)
    np.testing.assert_allclose(np.diag(alpha), [1, 1 / 2, 1, 1 / 4])
    zero = Graph.from_edge_index([[0, 1], [2, 2]], 3, [0.0, 0.0], "weighted-mean")
    np.testing.assert_allclose(twin(zero, np.empty(0))[2], [0, 0, 1])
    kept = Graph.from_edge_index(pairs, 4, weight, "weighted-mean", self_loops="keep")
    assert twin(kept, np.empty(0))[3, 3] == pytest.approx(5 / 1005)


def test_norms_with_weights_share_them_and_others_have_none():
    graph = random_graph(1)
    assert np.shares_memory(graph.with_norm("weights").weight, graph.weight)
    assert graph.with_norm("weights").with_norm("weighted-mean").norm == "weighted-mean"
    plain = graph.with_norm("mean")
    assert plain.weight.size == 0
    with pytest.raises(InputError, match="norm='weighted-mean' needs weights"):
        plain.with_norm("weighted-mean")
    with pytest.raises(InputError, match="needs one weight per edge"):
        Graph.from_edge_index([[0], [1]], 2, norm="weighted-mean")
