"""A graph is the same whatever it was made of, and bad input is refused in one sentence."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import add_remaining_self_loops, degree

from bliss import PLADIES, Graph, InputError

PAIRS = np.array([[0, 1, 2, 2, 3, 3], [1, 2, 0, 0, 3, 1]])  # 2 -> 0 twice, 3 -> 3, node 4 alone
WEIGHT = np.array([1, 2, 3, 4, 5, 6], np.float32)


def edges(graph: Graph) -> list[tuple[int, int]]:
    target = np.repeat(np.arange(graph.num_nodes), graph.degree)
    return sorted(zip(graph.indices.tolist(), target.tolist(), strict=True))


LOOPS = [(i, i) for i in range(5)]
OTHERS = [(0, 1), (1, 2), (2, 0), (2, 0), (3, 1)]


def test_self_loops_are_added_once():
    assert edges(Graph.from_edge_index(PAIRS, 5)) == sorted(OTHERS + LOOPS)


def test_self_loops_can_be_kept_or_removed():
    assert edges(Graph.from_edge_index(PAIRS, 5, self_loops="keep")) == sorted([*OTHERS, (3, 3)])
    assert edges(Graph.from_edge_index(PAIRS, 5, self_loops="remove")) == OTHERS


def test_duplicates_are_kept_or_merged_with_their_weights_added():
    graph = Graph.from_edge_index(
        PAIRS, 5, weight=WEIGHT, norm="weights", self_loops="remove", duplicates="coalesce"
    )
    assert edges(graph) == [(0, 1), (1, 2), (2, 0), (3, 1)]
    assert graph.weight.tolist() == [7, 1, 6, 2]  # by target: 0, then 1 (from 0 and 3), then 2


def test_rows_are_sorted_and_types_are_as_promised():
    graph = Graph.from_edge_index(PAIRS, 5)
    assert graph.indptr.dtype == np.int64
    assert graph.indices.dtype == np.int32
    for i in range(5):
        row = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        assert (np.diff(row) >= 0).all()


def test_every_source_gives_the_same_graph():
    reference = Graph.from_edge_index(PAIRS, 5, self_loops="keep")
    tensor = torch.from_numpy(PAIRS)
    matrix = scipy.sparse.coo_matrix((WEIGHT, PAIRS), shape=(5, 5))
    made = [
        Graph.of(Data(edge_index=tensor, num_nodes=5)),
        Graph.of(EdgeIndex(tensor, sparse_size=(5, 5))),
        Graph.of(tensor, num_nodes=5),
        Graph.of(tensor.numpy(), num_nodes=5),
        Graph.from_data(Data(edge_index=tensor, num_nodes=5)),
        Graph.from_csc(reference.indptr, reference.indices, self_loops="keep"),
        Graph.from_edge_index(PAIRS.tolist(), 5, self_loops="keep"),
    ]
    for graph in made:
        np.testing.assert_array_equal(graph.indptr, reference.indptr)
        np.testing.assert_array_equal(graph.indices, reference.indices)
    options = {"duplicates": "coalesce", "self_loops": "keep"}
    merged = Graph.from_edge_index(PAIRS, 5, **options)
    for form in (matrix.tocsc(), matrix.tocsr()):  # these add up duplicates themselves
        assert edges(Graph.of(form)) == edges(merged)


class SparseTensor:
    """Stands in for the class of torch_sparse, which is known by its name and methods."""

    def __init__(self, matrix: torch.Tensor) -> None:
        self.matrix = matrix.coalesce()

    def coo(self):
        return (*self.matrix.indices(), self.matrix.values())

    def sparse_sizes(self):
        return tuple(self.matrix.shape)


SparseTensor.__module__ = "torch_sparse.tensor"


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_every_sparse_matrix_gives_the_same_graph():
    """Entry [j, i] is the edge j -> i; in adj_t it is the other way round."""
    matrix = torch.sparse_coo_tensor(PAIRS, torch.from_numpy(WEIGHT), (5, 5))
    transposed = matrix.t().coalesce()
    forms = {
        "coo": matrix,
        "csr": matrix.to_sparse_csr(),
        "csc": matrix.to_sparse_csc(),
        "SparseTensor": SparseTensor(matrix),
        "adj_t": Data(adj_t=transposed, num_nodes=5),
        "adj_t as csr": Data(adj_t=transposed.to_sparse_csr(), num_nodes=5),
    }
    options = {"duplicates": "coalesce", "self_loops": "keep"}
    merged = Graph.from_edge_index(PAIRS, 5, weight=WEIGHT, norm="weights", **options)
    for name, form in forms.items():
        graph = Graph.of(form, norm="weights")
        assert edges(graph) == edges(merged), name
        assert graph.weight.tolist() == merged.weight.tolist(), name
        assert edges(Graph.of(form)) == edges(merged), name


def test_networkx_graphs_keep_numbers_or_the_order_of_their_nodes():
    directed = networkx.DiGraph([(2, 0), (0, 1)])  # nodes are listed as 2, 0, 1
    assert edges(Graph.of(directed)) == sorted([(2, 0), (0, 1)])
    named = networkx.Graph()
    named.add_edge("c", "a", weight=2.5)
    named.add_edge("a", "b")
    graph = Graph.of(named, norm="weights")  # c, a, b become 0, 1, 2
    assert edges(graph) == sorted([(0, 1), (1, 0), (1, 2), (2, 1)])
    assert graph.weight.tolist() == [2.5, 2.5, 1, 1]


def test_a_converted_graph_has_the_edges_of_its_source_unless_gcn_needs_self_loops():
    data = Data(edge_index=torch.tensor([[0, 1, 1], [1, 1, 2]]), num_nodes=3)
    assert edges(Graph.of(data)) == [(0, 1), (1, 1), (1, 2)]
    for graph in (Graph.of(data, self_loops="add"), Graph.of(data, norm="gcn")):
        assert edges(graph) == [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)]
    assert edges(Graph.of(data, norm="gcn", self_loops="remove")) == [(0, 1), (1, 2)]


def test_gcn_coefficients_are_those_of_pyg():
    random = np.random.default_rng(0)
    tensor = torch.from_numpy(random.integers(0, 30, (2, 100)))
    tensor = torch.cat([tensor, tensor.flip(0)], 1)
    graph = Graph.from_edge_index(tensor, 30, norm="gcn", duplicates="coalesce")
    with_loops, _ = add_remaining_self_loops(tensor.unique(dim=1), num_nodes=30)
    sizes = degree(with_loops[1], 30)
    nodes = np.arange(graph.num_nodes)
    np.testing.assert_allclose(graph.rows(nodes).target_scale, sizes**-0.5, rtol=1e-6)
    np.testing.assert_allclose(graph.rows(nodes).source_scale(nodes), sizes**-0.5, rtol=1e-6)


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_coefficient_sums_are_sums_of_coefficients(norm):
    weight = WEIGHT if norm == "weights" else None
    graph = Graph.from_edge_index(PAIRS, 5, weight=weight, norm=norm, self_loops="remove")
    expected = np.zeros(5)
    for i in range(5):
        for e in range(graph.indptr[i], graph.indptr[i + 1]):
            j = graph.indices[e]
            if norm == "weights":
                expected[i] += graph.weight[e]
            elif norm == "mean":
                expected[i] += 1 / graph.degree[i]
            elif graph.degree[j] > 0:
                expected[i] += 1 / np.sqrt(graph.degree[i] * graph.degree[j])
    sums = graph.rows(np.arange(graph.num_nodes)).coefficient_sum()
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


def test_a_graph_cannot_be_changed_and_leaves_the_callers_arrays_alone():
    indptr, indices = np.array([0, 1, 2]), np.array([0, 1], np.int32)
    graph = Graph.from_csc(indptr, indices, self_loops="keep")
    with pytest.raises(ValueError, match="read-only"):
        graph.indices[0] = 1
    indices[0] = 1  # still the caller's own


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16, np.uint64])
def test_narrow_and_unsigned_ids_are_widened(kind):
    wide = Graph.from_edge_index(PAIRS, 300)
    narrow = Graph.from_edge_index(PAIRS.astype(kind), 300)
    np.testing.assert_array_equal(narrow.indices, wide.indices)
    np.testing.assert_array_equal(narrow.indptr, wide.indptr)


@pytest.mark.parametrize("estimator", ["ht", "hajek", "released"])
def test_a_weighted_graph_without_edges_works(estimator):
    nothing = np.zeros((2, 0), np.int64)
    graph = Graph.from_edge_index(nothing, 3, weight=[], norm="weights", self_loops="keep")
    assert PLADIES(graph, [2], estimator=estimator).sample([0, 2], 0)[0].num_edges == 0


def test_other_coefficients_share_the_edges():
    graph = Graph.from_edge_index(PAIRS, 5)
    assert graph.with_norm("gcn").source_factor(1.0).size == 5
    assert np.shares_memory(graph.with_norm("gcn").indices, graph.indices)


def test_another_norm_keeps_what_was_computed_and_does_not_depend_on_it():
    graph = Graph.from_edge_index(PAIRS, 5, self_loops="keep")
    assert not {"degree", "has_self_loops"} & graph.with_norm("gcn").__dict__.keys()
    assert graph.degree.sum() == graph.num_edges
    assert graph.has_self_loops is False
    assert graph.source_factor(1.0).size == 0
    other = graph.with_norm("gcn")
    assert other.degree is graph.degree
    assert other.__dict__["has_self_loops"] is False
    assert other.source_factor(1.0) is other.source_factor(1.0)
    assert other.source_factor(1.0).size == 5


REFUSED = {
    "weights from nowhere": (
        lambda: Graph.from_edge_index(PAIRS, 5).with_norm("weights"),
        "this graph has none",
    ),
    "out of range": (lambda: Graph.from_edge_index([[0], [9]], 5), "edge_index holds 9"),
    "negative": (lambda: Graph.from_edge_index([[0], [-1]], 5), "edge_index holds -1"),
    "float": (lambda: Graph.from_edge_index([[0.0], [1.0]], 5), "edge_index has type float64"),
    "transposed": (lambda: Graph.from_edge_index(np.zeros((7, 2), int)), r"shape \(7, 2\)"),
    "NaN weight": (
        lambda: Graph.from_edge_index([[0], [1]], 2, weight=[np.nan], norm="weights"),
        r"weight\[0\] is nan",
    ),
    "infinite in float32": (
        lambda: Graph.from_edge_index([[0], [1]], 2, weight=[1e60], norm="weights"),
        r"weight\[0\] is inf",
    ),
    "negative weight": (
        lambda: Graph.from_edge_index([[0, 1], [1, 0]], 2, weight=[1, -2.0], norm="weights"),
        r"weight\[1\] is -2.0",
    ),
    "too few weights": (
        lambda: Graph.from_edge_index(PAIRS, 5, weight=[1.0], norm="weights"),
        r"weight has shape \(1,\), but there are 6 edges",
    ),
    "ignored weights": (lambda: Graph.from_edge_index(PAIRS, 5, weight=WEIGHT), "norm='mean'"),
    "no weights": (lambda: Graph.from_edge_index(PAIRS, 5, norm="weights"), "none was given"),
    "unknown norm": (lambda: Graph.from_edge_index(PAIRS, 5, norm="sum"), "norm='sum'"),
    "falling unsigned indptr": (
        lambda: Graph.from_csc(np.array([0, 2, 1, 3], np.uint64), [0, 1, 2]),
        "indptr runs from 0 to 3",
    ),
    "ragged": (lambda: Graph.from_edge_index([[0, 1], [1]]), "rows of equal length"),
    "falling indptr": (lambda: Graph.from_csc([0, 2, 1, 3], [0, 1, 2]), "indptr runs from 0 to 3"),
    "short indptr": (lambda: Graph.from_csc([0, 2], [0, 1, 2]), "number of edges, 3"),
    "bad index in CSC": (lambda: Graph.from_csc([0, 1], [4]), "indices holds 4"),
    "not square": (lambda: Graph.of(scipy.sparse.eye(3, 4, format="csc")), r"shape \(3, 4\)"),
    "no edges in data": (lambda: Graph.of(Data(num_nodes=3)), "data.edge_index is None"),
    "types without edges": (lambda: Graph.of(HeteroData()), "there are no relations"),
    "a dense matrix": (lambda: Graph.of(torch.eye(4)), r"dense array of shape \(4, 4\)"),
    "torch not square": (lambda: Graph.of(torch.ones(2, 3).to_sparse()), r"shape \(2, 3\)"),
    "num_nodes twice": (
        lambda: Graph.of(Data(edge_index=torch.from_numpy(PAIRS)), num_nodes=9),
        "num_nodes=9 was given with a Data",
    ),
    "something else": (lambda: Graph.of(42), "int cannot be converted"),
    "a path": (lambda: Graph.of("nowhere"), "open a saved graph with bliss.data.open_graph"),
    "index out of range": (
        lambda: Graph([0, 1, 2], [0, 2]),
        "indices holds 2, but the graph has 2",
    ),
    "negative index": (lambda: Graph([0, 1, 2], [0, -1]), "indices holds -1"),
    "index of text": (lambda: Graph([0, 1], ["a"]), "indices has type"),
    "pointers that fall": (lambda: Graph([0, 3, 2, 3], [0, 1, 2]), "indptr runs from 0 to 3"),
    "pointers from 1": (lambda: Graph([1, 2], [0, 0]), "indptr runs from 1 to 2"),
    "pointers past the end": (lambda: Graph([0, 9], [0]), "indptr runs from 0 to 9"),
    "fractional pointers": (lambda: Graph([0.0, 1.0], [0]), "indptr has type float64"),
    "no pointers": (lambda: Graph([], []), "indptr has type"),
    "weight too long": (
        lambda: Graph([0, 1], [0], "weights", np.ones(2, np.float32)),
        r"weight has shape \(2,\), but there are 1 edges",
    ),
    "weight missing": (lambda: Graph([0, 1], [0], "weights"), "needs one weight per edge"),
    "weight of no use": (lambda: Graph([0, 1], [0], "mean", np.ones(1)), "would ignore it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_gets_one_sentence(case):
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_scales_and_sums_of_some_nodes_are_those_of_all(toy_graph, norm, monkeypatch):
    weight = np.linspace(0, 1, toy_graph.num_edges) if norm == "weights" else None
    arrays = toy_graph.indptr, toy_graph.indices
    graph = Graph.from_csc(*arrays, weight, norm, self_loops="keep", duplicates="keep")
    nodes = np.random.default_rng(0).permutation(60)[:25]
    monkeypatch.setattr("bliss.graph.csc._CHUNK", 7)
    everyone = np.arange(60)
    every, some = graph.rows(everyone), graph.rows(nodes)
    np.testing.assert_array_equal(some.coefficient_sum(), every.coefficient_sum()[nodes])
    np.testing.assert_array_equal(graph.degree_of(nodes), graph.degree[nodes])
    np.testing.assert_array_equal(some.degree, graph.degree[nodes])
    scale = every.source_scale(everyone)
    np.testing.assert_array_equal(some.source_scale(nodes), scale[nodes] if scale.size else scale)
    np.testing.assert_array_equal(graph.source_factor(0.75), (scale**0.75).astype(np.float32))
    assert graph.has_self_loops
    without = Graph.from_edge_index(graph.edge_index[:, 1:], 60, self_loops="keep")
    loops = graph.edge_index[0] == graph.edge_index[1]
    assert without.has_self_loops == (not bool(loops[0]))
