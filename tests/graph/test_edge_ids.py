"""Kept edges know the column of the user's edge_index that they came from."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import PLADIES, BlockLoader, Full, Graph, InputError
from tests.conftest import heavy_tailed_pairs

PAIRS = heavy_tailed_pairs(40, 300)  # with duplicates and self-loops


def ends(graph: Graph) -> np.ndarray:
    """Source and target of each edge of the graph. [2, E]."""
    return graph.edge_index.numpy()


@pytest.mark.parametrize("duplicates", ["keep", "coalesce"])
@pytest.mark.parametrize("self_loops", ["add", "keep", "remove"])
def test_every_edge_has_the_column_of_the_same_ends(self_loops, duplicates):
    options = {"self_loops": self_loops, "duplicates": duplicates}
    graph = Graph.from_edge_index(PAIRS, 45, edge_ids=True, **options)
    plain = Graph.from_edge_index(PAIRS, 45, **options)
    assert plain.edge_id is None
    assert np.array_equal(plain.indices, graph.indices)
    known = graph.edge_id >= 0
    assert np.array_equal(PAIRS[:, graph.edge_id[known]], ends(graph)[:, known])
    source, target = ends(graph)[:, ~known]
    assert np.array_equal(source, target)
    was_loop = np.unique(PAIRS[0, PAIRS[0] == PAIRS[1]])
    assert not np.isin(source, was_loop).any()  # a loop of the user keeps its column
    assert (len(source) > 0) == (self_loops == "add")
    assert len(np.unique(graph.edge_id[known])) == known.sum()
    assert graph.edge_id.dtype == np.int32


def test_merged_edges_have_the_first_column():
    pairs = [[3, 0, 3, 2, 2, 2], [1, 1, 1, 2, 2, 0]]
    graph = Graph.from_edge_index(pairs, 4, duplicates="coalesce", edge_ids=True)
    found = {tuple(pair): int(e) for pair, e in zip(ends(graph).T, graph.edge_id, strict=True)}
    assert found == {
        (0, 0): -1, (2, 0): 5, (0, 1): 1, (1, 1): -1, (3, 1): 0, (2, 2): 3, (3, 3): -1
    }  # fmt: skip


def test_other_coefficients_and_copies_keep_the_columns():
    graph = Graph.from_edge_index(PAIRS, 45, edge_ids=True)
    assert graph.with_norm("gcn").edge_id is graph.edge_id
    assert copy.deepcopy(graph) is graph
    with pytest.raises(InputError, match=r"edge_id has shape \(3,\) for"):
        Graph(graph.indptr, graph.indices, edge_id=np.arange(3))


def edge_data(**more) -> Data:
    pairs = torch.from_numpy(PAIRS)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(45, 4, generator=generator)
    attributes = {"edge_attr": torch.stack([pairs[0], pairs[1]], 1).float() + 1}
    return Data(x=x, edge_index=pairs, **attributes, **more)


def test_a_batch_carries_the_attributes_of_its_edges():
    data = edge_data(edge_time=torch.arange(300))
    loader = BlockLoader(data, PLADIES(data, [15, 10], self_loops="add"), batch_size=8)
    batch = next(iter(loader))
    assert batch.num_edges == sum(block.num_edges for block in batch.blocks)
    layers = zip(batch.blocks, batch.e_id, batch.edge_attr, batch.edge_time, strict=True)
    for block, e_id, edge_attr, edge_time in layers:
        assert torch.equal(block.e_id, e_id)
        expected = torch.stack([block.src[block.row], block.dst[block.col]], 1).float() + 1
        expected[e_id < 0] = 0
        assert torch.equal(edge_attr, expected)
        assert torch.equal(edge_time[e_id >= 0], e_id[e_id >= 0])
        assert (e_id < 0).any()
    moved = batch.to("cpu")
    assert torch.equal(moved.edge_attr[0], batch.edge_attr[0])


def test_without_edge_ids_e_id_is_refused_and_dropped_attributes_are_told_once():
    data = edge_data()
    sampler = PLADIES(Graph.of(data, edge_ids=False), [15])
    with pytest.warns(UserWarning, match="edge_attr is left out of batches") as told:
        loader = BlockLoader(data, sampler, batch_size=8)
        batch = next(iter(loader))
    assert len(told) == 1
    assert "edge_attr" not in batch
    assert "e_id" not in batch
    with pytest.raises(InputError, match="the graph was built without edge ids: build it with"):
        _ = batch.blocks[0].e_id


def test_weights_that_are_not_used_are_told():
    data = edge_data(edge_weight=torch.ones(300))
    with pytest.warns(UserWarning, match=r"data.edge_weight is not used.*norm=.weights"):
        Full(data, layers=1)
    Full(data, layers=1, norm="mean")
    Full(data, layers=1, norm="weights")


def test_labels_of_links_are_no_attributes_of_edges():
    index = torch.from_numpy(PAIRS)
    data = Data(x=torch.zeros(45, 2), edge_index=index, edge_label_index=index.clone())
    sampler = PLADIES(data, budgets=[20])
    assert sampler.graph.edge_id is None
    batch = next(iter(BlockLoader(data, sampler, batch_size=5)))
    assert batch.edge_label_index.shape == index.shape
